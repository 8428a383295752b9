#include "isthmus/cli/output.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstdio>

namespace isthmus::cli {
namespace {

void ReplaceFirstInvalidByte(std::string* text) {
  size_t valid = 0;
  // The longest valid prefix: a character has at most four bytes.
  for (size_t end = 1; end <= text->size(); ++end) {
    if (simdjson::validate_utf8(text->data(), end)) valid = end;
    if (end > valid + 4) break;
  }
  (*text)[valid] = '?';
}

}  // namespace

int ExitCode(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInternal:
      return 1;
    case ErrorCode::kInvalid:
      return 2;
    case ErrorCode::kNotFound:
      return 3;
    case ErrorCode::kConflict:
      return 4;
    case ErrorCode::kCorrupt:
    case ErrorCode::kPoisoned:
      return 5;
    case ErrorCode::kNotReady:
    case ErrorCode::kUnavailable:
      return 6;
  }
  return 1;
}

void PrintJson(const json::object& object) { fmt::print("{}\n", json::serialize(object)); }

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr std::string_view kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits[unit]);
}

std::string FormatPercent(double fraction) { return fmt::format("{:.4f} %", fraction * 100); }

std::string FormatSeconds(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1000) : fmt::format("{:.2f} s", seconds);
}

std::string OneLine(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  while (!simdjson::validate_utf8(line)) ReplaceFirstInvalidByte(&line);
  return line;
}

void Facts::Print() const {
  size_t width = 0;
  for (const auto& [label, value] : rows_) width = std::max(width, label.size());
  for (const auto& [label, value] : rows_) fmt::print("{:<{}}  {}\n", label, width, value);
}

void Table::Print() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line = fmt::format("{:<{}}", row[0], widths[0]);
    for (size_t i = 1; i < row.size(); ++i) line += fmt::format("  {:>{}}", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "isthmus: note: {}\n", OneLine(note));
}

}  // namespace isthmus::cli
