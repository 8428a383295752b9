// Timing of loops that are compared with each other, and the rows that benchmarks print.
#ifndef BENCH_MEASURE_H_
#define BENCH_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace isthmus::bench {

// The middle value, of an even number the lower of the two. `values` must not be empty.
double Median(std::vector<double> values);

// A loop to time. `prepare` runs before each timed `run`, outside of the time.
struct Loop {
  std::function<void()> run;
  std::function<void()> prepare = [] {};
};

// Runs each loop once untimed, then all of them in turn, `rounds` times, and returns the seconds of
// each loop, by round. In turn, so that what disturbs the machine for a while hits all of them and
// a ratio taken within a round keeps its meaning.
std::vector<std::vector<double>> TimeInTurn(const std::vector<Loop>& loops, size_t rounds);

// The median over the rounds of how many times faster `seconds` is than `reference`.
double SpeedRatio(const std::vector<double>& seconds, const std::vector<double>& reference);

// Keeps a result, and so the loop that made it, from being optimised away.
void Consume(uint64_t result);

// What a value must reach, for the last two columns of a row.
struct Target {
  enum class Kind { kNone, kAtLeast, kAtMost };
  Kind kind = Kind::kNone;
  double bound = 0;

  static Target AtLeast(double bound) { return {Kind::kAtLeast, bound}; }
  static Target AtMost(double bound) { return {Kind::kAtMost, bound}; }
};

// One line of CSV on standard output, columns as in PrintHeader. Cells must not contain commas.
void PrintRow(std::string_view bench, std::string_view test_case, std::string_view metric,
              double value, std::string_view unit, Target target = {});
void PrintHeader();

}  // namespace isthmus::bench

#endif  // BENCH_MEASURE_H_
