#include "bench/codec_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/goals.h"
#include "bench/measure.h"
#include "isthmus/codec/diff.h"

namespace isthmus::bench {
namespace {

using codec::Encoding;

constexpr std::string_view kAuto = "auto";  // what `isthmus diff` does if not told otherwise

struct PatchSize {
  uint64_t payload = 0;
  uint64_t file = 0;  // all bytes that `isthmus diff` writes
};

PatchSize SizeOfPatch(const StepPair& pair, codec::EncodingPolicy policy, ThreadPool& pool) {
  codec::PartBuilder part;
  const codec::DiffResult diff = codec::DiffCheckpoints(
      pair.before, pair.after, policy, pool, NoProgress(),
      [&part](codec::ChunkDiff change) { codec::AddChunkDiff(std::move(change), &part); });
  PatchSize size;
  size.payload = part.payload_bytes();
  codec::AddFileChanges(pair.after, diff.base, diff.next, &part);
  const codec::VersionPair versions = {diff.base.Digest(), diff.next.Digest()};
  size.file = part.Finish(versions, [](ByteSpan) {});
  return size;
}

class SizeReport {
 public:
  SizeReport(const StepPair& pair, ThreadPool& pool)
      : pair_(pair),
        pool_(pool),
        counts_(pair.CountChanges(pool)),
        changed_(static_cast<double>(counts_.changed())),
        goals_(SizeGoalsOf(pair.label, pair.generated, counts_.changed())) {}

  void Print() {
    const double density = 100 * changed_ / static_cast<double>(counts_.elements());
    PrintRow("size", pair_.label, "changed", changed_, "elements");
    PrintRow("size", pair_.label, "density", density, "%");
    PrintPatch("context", Encoding::kContext);
    PrintPatch("direct", Encoding::kDirect);
    PrintPatch("xor", Encoding::kXor);
    PrintPatch("raw", Encoding::kRaw);
    const double file = PrintPatch(kAuto, {});
    PrintPeers(file);
    PrintEntropies(file);
  }

 private:
  double PerChange(uint64_t bytes) const { return 8 * static_cast<double>(bytes) / changed_; }
  void PrintBits(std::string_view metric, double bits, Target goal = {}) const {
    PrintRow("size", pair_.label, metric, bits, "bits/change", goal);
  }
  void PrintRatio(std::string_view metric, double ratio, Target goal) const {
    PrintRow("size", pair_.label, metric, ratio, "ratio", goal);
  }

  // Returns the file's bits per change.
  double PrintPatch(std::string_view name, codec::EncodingPolicy policy) const {
    const bool has_goals = name == kAuto;
    const PatchSize size = SizeOfPatch(pair_, policy, pool_);
    PrintBits(fmt::format("{} payload", name), PerChange(size.payload),
              has_goals ? goals_.payload : Target{});
    PrintBits(fmt::format("{} file", name), PerChange(size.file),
              has_goals ? goals_.file : Target{});
    return PerChange(size.file);
  }

  void PrintPeers(double file) const {
    const std::vector<TensorPair> tensors = pair_.Tensors();
    for (const PeerScheme scheme :
         {PeerScheme::kDenseXor, PeerScheme::kIndexAndValue, PeerScheme::kShortGapAndValue,
          PeerScheme::kRowColumnAndValue, PeerScheme::kRowColumnDifference}) {
      const auto takes = [scheme](const TensorPair& tensor) {
        return PeerTakes(scheme, tensor.dtype);
      };
      if (!std::ranges::all_of(tensors, takes)) continue;
      const double bits = PerChange(PeerBytes(scheme, tensors));
      PrintBits(PeerName(scheme), bits);
      PrintRatio(fmt::format("{} / file", PeerName(scheme)), bits / file,
                 scheme == PeerScheme::kDenseXor ? goals_.dense_xor_over_file : Target{});
    }
  }

  void PrintEntropies(double file) const {
    const double given_key = counts_.BitsGivenKey() / changed_;
    PrintBits("entropy with one density", counts_.BitsWithOneDensity() / changed_);
    PrintBits("entropy given the old key", given_key);
    PrintRatio("file / entropy given the old key", file / given_key, goals_.file_over_given_key);
  }

  const StepPair& pair_;
  ThreadPool& pool_;
  const ChangeCounts counts_;
  const double changed_;
  const SizeGoals goals_;
};

}  // namespace

void PrintSizes(const StepPair& pair, ThreadPool& pool) { SizeReport(pair, pool).Print(); }

}  // namespace isthmus::bench
