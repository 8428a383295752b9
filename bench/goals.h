// The goals of the project for the codec.
#ifndef BENCH_GOALS_H_
#define BENCH_GOALS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "bench/measure.h"

namespace isthmus::bench {

// Of a pair's patch, in bits per change, as `isthmus diff` makes it.
struct SizeGoals {
  Target payload;
  Target file;
  Target dense_xor_over_file;  // how many times larger dense XOR + zstd is
  Target file_over_given_key;  // the file, over the entropy given the old key
};
// A pair with few changes has none but its entropy's: its file is mostly names and digests.
SizeGoals SizeGoalsOf(std::string_view pair, bool generated, uint64_t changed);

// Loops as rows name them.
inline constexpr std::string_view kScanLoop = "scan";
inline constexpr std::string_view kEncodeLoop = "encode";
inline constexpr std::string_view kDiffLoop = "diff";
inline constexpr std::string_view kApplyLoop = "decode + apply";
inline constexpr std::string_view kVerifiedLoop = "decode + apply + digests";

// Of the loop's speed over its reference's, on one core with these SIMD instructions.
Target SpeedGoalOf(std::string_view pair, std::string_view loop, std::string_view simd);

// Of two cores over one. Pairs without this goal are measured on one core only.
Target TwoCoresGoalOf(std::string_view pair);

}  // namespace isthmus::bench

#endif  // BENCH_GOALS_H_
