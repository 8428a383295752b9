#include "isthmus/relay/target.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "isthmus/base/error.h"
#include "isthmus/store/store.h"

namespace isthmus::relay {
namespace {

constexpr size_t kMaxKeyBytes = 1024;  // docs/board.md
constexpr std::string_view kWatchBegin = "/v1/runs/";
constexpr std::string_view kWatchEnd = "/watch";

[[noreturn]] void Refuse(std::string_view target, std::string_view why) {
  Throw(ErrorCode::kInvalid, "request target {:?}: {}", target.substr(0, 256), why);
}

bool IsUnreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
         c == '_' || c == '-';
}

// The two hexadecimal digits that `text` begins with.
std::optional<char> ReadEscape(std::string_view text) {
  const std::string_view digits = text.substr(0, 2);
  uint8_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const bool whole = digits.size() == 2 && end == digits.data() + digits.size();
  if (!whole || error != std::errc()) return std::nullopt;
  return static_cast<char>(value);
}

// Without escapes, all of which may be there.
std::string DecodeAny(std::string_view text, std::string_view target) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::optional<char> escaped =
        text[i] == '%' ? ReadEscape(text.substr(i + 1)) : std::optional(text[i]);
    if (!escaped) Refuse(target, "a malformed escape");
    decoded += *escaped;
    if (text[i] == '%') i += 2;
  }
  return decoded;
}

// Without escapes. Only characters of keys may be there, however they are written.
std::string Decode(std::string_view text, std::string_view target) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const std::optional<char> escaped = ReadEscape(text.substr(i + 1));
      if (!escaped || !IsUnreserved(*escaped)) Refuse(target, "an escape that no key needs");
      c = *escaped;
      i += 2;
    } else if (c != '/' && !IsUnreserved(c)) {
      Refuse(target, "a character that no key has");
    }
    decoded += c;
  }
  if (decoded.size() > kMaxKeyBytes) Refuse(target, "longer than any key");
  return decoded;
}

using Parameters = std::map<std::string_view, std::string_view>;

// Takes a parameter out.
std::string_view Take(Parameters* parameters, std::string_view name, std::string_view target) {
  const auto found = parameters->find(name);
  if (found == parameters->end()) Refuse(target, fmt::format("no parameter \"{}\"", name));
  const std::string_view value = found->second;
  parameters->erase(found);
  return value;
}

uint64_t TakeNumber(Parameters* parameters, std::string_view name, uint64_t max,
                    std::string_view target) {
  const std::string_view text = Take(parameters, name, target);
  uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number > max) {
    Refuse(target, fmt::format("{} must be a number, at most {}", name, max));
  }
  return number;
}

Parameters ReadQuery(std::string_view query, std::string_view target) {
  Parameters parameters;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const size_t equals = one.find('=');
    if (equals == one.npos) Refuse(target, "a parameter without a value");
    if (!parameters.emplace(one.substr(0, equals), one.substr(equals + 1)).second) {
      Refuse(target, "a parameter that is repeated");
    }
  }
  return parameters;
}

WatchTarget ReadWatch(std::string_view run, Parameters* parameters, std::string_view target) {
  WatchTarget watch;
  watch.run = Decode(run, target);
  board::CheckRunName(watch.run);
  watch.after = TakeNumber(parameters, "after", board::kMaxVersion, target);
  if (parameters->contains("timeout_ms")) {
    watch.timeout = std::chrono::milliseconds(
        TakeNumber(parameters, "timeout_ms", kLongestWatch.count(), target));
  }
  return watch;
}

Target Read(std::string_view path, Parameters* parameters, std::string_view target) {
  if (path == "/health") return HealthTarget();
  if (path == "/metrics") return MetricsTarget();
  if (path == "/") return ListTarget{DecodeAny(Take(parameters, "list", target), target)};
  if (path.starts_with(kWatchBegin) && path.ends_with(kWatchEnd) &&
      path.size() > kWatchBegin.size() + kWatchEnd.size()) {
    path.remove_prefix(kWatchBegin.size());
    path.remove_suffix(kWatchEnd.size());
    return ReadWatch(path, parameters, target);
  }
  std::string key = Decode(path.substr(1), target);
  store::CheckKey(key);
  return ObjectTarget{std::move(key)};
}

}  // namespace

Target ParseTarget(std::string_view target) {
  if (!target.starts_with('/')) Refuse(target, "expected a path");
  const size_t mark = std::min(target.find('?'), target.size());
  Parameters parameters = ReadQuery(target.substr(std::min(mark + 1, target.size())), target);
  Target read = Read(target.substr(0, mark), &parameters, target);
  if (!parameters.empty()) Refuse(target, "an unknown parameter");
  return read;
}

}  // namespace isthmus::relay
