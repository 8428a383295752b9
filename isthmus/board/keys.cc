#include "isthmus/board/keys.h"

#include <fmt/format.h>

#include <charconv>

namespace isthmus::board {
namespace {

constexpr std::string_view kSuffix = ".json";

}  // namespace

std::string RunPrefix(const std::string& run) { return fmt::format("runs/{}/", run); }
std::string RunKey(const std::string& run) { return RunPrefix(run) + "run.json"; }
std::string HintKey(const std::string& run) { return RunPrefix(run) + "head.json"; }
std::string LogPrefix(const std::string& run) { return RunPrefix(run) + "log/"; }
std::string LogKey(const std::string& run, VersionNumber version) {
  return fmt::format("{}{:0{}}{}", LogPrefix(run), version, kVersionDigits, kSuffix);
}
std::string WritersPrefix(const std::string& run) { return RunPrefix(run) + "writers/"; }
std::string WriterKey(const std::string& run, uint64_t epoch) {
  return fmt::format("{}{:0{}}{}", WritersPrefix(run), epoch, kEpochDigits, kSuffix);
}
std::string RevokedPrefix(const std::string& run) { return RunPrefix(run) + "revoked/"; }
std::string RevokedKey(const std::string& run, VersionNumber version) {
  return fmt::format("{}{:0{}}{}", RevokedPrefix(run), version, kVersionDigits, kSuffix);
}
std::string DataPrefix(const std::string& run) { return RunPrefix(run) + "data/"; }
std::string ExtraPrefix(const std::string& run) { return RunPrefix(run) + "extra/"; }
std::string PinPrefix(const std::string& run) { return RunPrefix(run) + "pins/"; }
std::string PinKey(const std::string& run, const std::string& name) {
  return fmt::format("{}{}{}", PinPrefix(run), name, kSuffix);
}

std::string KeptKey(const std::string& run) { return RunPrefix(run) + "kept.json"; }
std::string LeftoversKey(const std::string& run) { return RunPrefix(run) + "leftovers.json"; }
std::string CallKey(const std::string& run) { return RunPrefix(run) + "call.json"; }

std::optional<uint64_t> DigitsIn(std::string_view key, std::string_view prefix, size_t digits) {
  if (key.size() != prefix.size() + digits + kSuffix.size() || !key.starts_with(prefix) ||
      !key.ends_with(kSuffix)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  const char* const begin = key.data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, begin + digits, number);
  if (error != std::errc() || end != begin + digits) return std::nullopt;
  return number;
}

std::optional<uint64_t> NumberIn(std::string_view key, std::string_view prefix, size_t digits) {
  const std::optional<uint64_t> number = DigitsIn(key, prefix, digits);
  return number == 0 ? std::nullopt : number;
}

}  // namespace isthmus::board
