// The keys of a board's objects (docs/board.md, "Layout").
#ifndef ISTHMUS_BOARD_KEYS_H_
#define ISTHMUS_BOARD_KEYS_H_

#include <optional>
#include <string>
#include <string_view>

#include "isthmus/board/manifest.h"

namespace isthmus::board {

// Decimal digits in the keys of log entries and of writers.
inline constexpr size_t kVersionDigits = 10;
inline constexpr size_t kEpochDigits = 6;

// Prefixes end with '/'. `run` must have passed CheckRunName.
std::string RunPrefix(const std::string& run);
std::string RunKey(const std::string& run);
std::string HintKey(const std::string& run);
std::string LogPrefix(const std::string& run);
std::string LogKey(const std::string& run, VersionNumber version);
std::string WritersPrefix(const std::string& run);
std::string WriterKey(const std::string& run, uint64_t epoch);
std::string RevokedPrefix(const std::string& run);
std::string RevokedKey(const std::string& run, VersionNumber version);
std::string DataPrefix(const std::string& run);
std::string ExtraPrefix(const std::string& run);
std::string PinPrefix(const std::string& run);
std::string PinKey(const std::string& run, const std::string& name);
std::string KeptKey(const std::string& run);
std::string LeftoversKey(const std::string& run);
std::string CallKey(const std::string& run);

// The number in "<prefix><digits>.json", nullopt for other keys.
std::optional<uint64_t> DigitsIn(std::string_view key, std::string_view prefix, size_t digits);
// The same for what is counted from 1: nullopt for 0 too.
std::optional<uint64_t> NumberIn(std::string_view key, std::string_view prefix, size_t digits);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_KEYS_H_
