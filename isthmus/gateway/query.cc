#include "isthmus/gateway/query.h"

#include <charconv>

#include "isthmus/base/error.h"

namespace isthmus::gateway {
namespace {

constexpr size_t kShownBytes = 64;

template <typename Number>
bool ReadWhole(std::string_view text, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Query::Query(std::string_view text) {
  while (!text.empty()) {
    const std::string_view parameter = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), parameter.size() + 1));
    const size_t equals = parameter.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      Throw(ErrorCode::kInvalid, "query: {:?} is not NAME=VALUE", parameter.substr(0, kShownBytes));
    }
    const std::string_view name = parameter.substr(0, equals);
    if (!parameters_.emplace(name, parameter.substr(equals + 1)).second) {
      Throw(ErrorCode::kInvalid, "{}: given twice", name.substr(0, kShownBytes));
    }
  }
}

std::optional<std::string_view> Query::Take(std::string_view name) {
  const auto found = parameters_.find(name);
  if (found == parameters_.end()) return std::nullopt;
  const std::string_view value = found->second;
  parameters_.erase(found);
  return value;
}

std::optional<uint64_t> Query::TakeCount(std::string_view name, uint64_t max) {
  const std::optional<std::string_view> text = Take(name);
  if (!text) return std::nullopt;
  uint64_t count = 0;
  if (!ReadWhole(*text, &count) || count > max) {
    Throw(ErrorCode::kInvalid, "{}: {:?}, allowed are whole numbers from 0 to {}", name,
          text->substr(0, kShownBytes), max);
  }
  return count;
}

std::optional<double> Query::TakeFraction(std::string_view name) {
  const std::optional<std::string_view> text = Take(name);
  if (!text) return std::nullopt;
  double fraction = 0;
  const bool read = ReadWhole(*text, &fraction);
  const bool within = fraction >= 0 && fraction <= 1;  // not so for NaN
  if (!read || !within) {
    Throw(ErrorCode::kInvalid, "{}: {:?}, allowed are decimal numbers from 0 to 1", name,
          text->substr(0, kShownBytes));
  }
  return fraction;
}

void Query::End() const {
  if (parameters_.empty()) return;
  Throw(ErrorCode::kInvalid, "{}: unknown parameter",
        parameters_.begin()->first.substr(0, kShownBytes));
}

}  // namespace isthmus::gateway
