#include "bench/codec_speeds.h"

#include <fmt/format.h>

#include <string_view>

#include "bench/goals.h"
#include "bench/measure.h"
#include "bench/workbench.h"
#include "isthmus/codec/simd.h"

namespace isthmus::bench {
namespace {

using Seconds = std::vector<double>;  // by round

class SpeedReport {
 public:
  SpeedReport(const StepPair& pair, Workbench* bench, const std::string& simd)
      : label_(pair.label),
        simd_(simd),
        case_(fmt::format("{} on {}", pair.label, simd)),
        has_two_cores_(TwoCoresGoalOf(label_).kind != Target::Kind::kNone),
        bench_(*bench) {}

  void PrintAll(size_t rounds) {
    const std::vector<Seconds> seconds = TimeInTurn(Loops(), rounds);
    bench_.CheckApplied();
    PrintReferences(seconds[kCopy], seconds[kCompare], seconds[kLeaves]);
    PrintScans(seconds[kCompare], seconds[kScanEqual], seconds[kScanPair]);
    PrintLoop(kEncodeLoop, seconds[kEncode], seconds[kCopy]);
    PrintLoop(kDiffLoop, seconds[kDiff], seconds[kCopy]);
    PrintLoop(kApplyLoop, seconds[kApply], seconds[kCopy]);
    PrintLoop(kVerifiedLoop, seconds[kVerified], seconds[kCopy]);
    if (!has_two_cores_) return;
    PrintTwoCores(kDiffLoop, seconds[kDiffTwoCores], seconds[kDiff]);
    PrintTwoCores(kApplyLoop, seconds[kApplyTwoCores], seconds[kApply]);
    PrintTwoCores(kVerifiedLoop, seconds[kVerifiedTwoCores], seconds[kVerified]);
  }

 private:
  // In the order of Loops.
  enum LoopIndex : size_t {
    kCopy,
    kCompare,
    kScanEqual,
    kScanPair,
    kLeaves,
    kEncode,
    kDiff,
    kApply,
    kVerified,
    kDiffTwoCores,
    kApplyTwoCores,
    kVerifiedTwoCores,
  };

  std::vector<Loop> Loops() {
    const std::function<void()> restore = [this] { bench_.Copy(); };
    std::vector<Loop> loops = {
        {[this] { bench_.Copy(); }},
        {[this] { bench_.CompareEqual(); }, restore},
        {[this] { bench_.ScanEqual(); }},
        {[this] { bench_.ScanPair(); }},
        {[this] { bench_.DigestLeaves(); }},
        {[this] { bench_.Encode(one_core_); }},
        {[this] { bench_.Diff(one_core_); }},
        {[this] { bench_.Apply(one_core_); }, restore},
        {[this] { bench_.ApplyVerified(one_core_); }, restore},
    };
    if (has_two_cores_) {
      loops.push_back({[this] { bench_.Diff(two_cores_); }});
      loops.push_back({[this] { bench_.Apply(two_cores_); }, restore});
      loops.push_back({[this] { bench_.ApplyVerified(two_cores_); }, restore});
    }
    return loops;
  }

  void PrintSpeed(std::string_view loop, const Seconds& seconds) const {
    const double speed = static_cast<double>(bench_.bytes()) / Median(seconds) / 1e9;
    PrintRow(loop, case_, "speed", speed, "GB/s");
  }

  void PrintReferences(const Seconds& copy, const Seconds& compare, const Seconds& leaves) const {
    PrintSpeed("memcpy", copy);
    PrintSpeed("memcmp of equal data", compare);
    PrintSpeed("XXH3-128 leaves", leaves);
    PrintRow("XXH3-128 leaves", case_, "speed / memcpy", SpeedRatio(leaves, copy), "ratio");
  }

  // memcmp stops at the first difference, so its reference is the compare of equal data.
  void PrintScans(const Seconds& compare, const Seconds& equal, const Seconds& pair) const {
    PrintSpeed(kScanLoop, equal);
    PrintRow(kScanLoop, case_, "equal data: speed / memcmp", SpeedRatio(equal, compare), "ratio",
             SpeedGoalOf(label_, kScanLoop, simd_));
    PrintRow(kScanLoop, case_, "pair: speed / memcmp", SpeedRatio(pair, compare), "ratio");
  }

  void PrintLoop(std::string_view loop, const Seconds& seconds, const Seconds& copy) const {
    PrintSpeed(loop, seconds);
    PrintRow(loop, case_, "time per change",
             Median(seconds) * 1e9 / static_cast<double>(bench_.changed()), "ns");
    PrintRow(loop, case_, "speed / memcpy", SpeedRatio(seconds, copy), "ratio",
             SpeedGoalOf(label_, loop, simd_));
  }

  void PrintTwoCores(std::string_view loop, const Seconds& two, const Seconds& one) const {
    PrintRow(loop, case_, "two cores / one core", SpeedRatio(two, one), "ratio",
             TwoCoresGoalOf(label_));
  }

  const std::string label_;
  const std::string simd_;
  const std::string case_;
  const bool has_two_cores_;
  Workbench& bench_;
  ThreadPool one_core_{1};
  ThreadPool two_cores_{2};
};

}  // namespace

void PrintSpeeds(const StepPair& pair, const SpeedOptions& options) {
  Workbench bench(pair);
  for (const std::string& simd : options.simd) {
    codec::SelectSimd(simd);
    SpeedReport(pair, &bench, simd).PrintAll(options.rounds);
  }
  codec::SelectSimd("");
}

}  // namespace isthmus::bench
