// isthmus-bench-codec: the codec's inner loops on one core, against memcpy and memcmp, and the bits
// that each way to store a change takes. Prints CSV; docs/benchmarks.md explains the rows.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "bench/modelgen.h"
#include "bench/peer_schemes.h"
#include "isthmus/base/digest.h"
#include "isthmus/base/error.h"
#include "isthmus/codec/chunk.h"
#include "isthmus/codec/diff.h"
#include "isthmus/codec/scan.h"
#include "isthmus/codec/tensor_diff.h"

namespace isthmus::bench {
namespace {

using codec::Encoding;
using tensor::Checkpoint;

// All generated and real models here are BF16.
constexpr size_t kUnitBytes = 2;
constexpr uint64_t kChunkBytes = codec::kChunkUnits * kUnitBytes;

// The goals of the project.
constexpr Target kScanGoal = {Target::Kind::kAtLeast, 0.8};
constexpr Target kDirectBitsGoal = {Target::Kind::kAtMost, 12.5};

// Learning rates at which AdamW changes about so many BF16 weights a step, with modelgen's other
// defaults (measured).
struct Density {
  std::string label;
  double learning_rate;
};
const std::vector<Density>& Densities() {
  static const std::vector<Density> densities = {
      {"0.1 %", 0.87e-7}, {"1 %", 1.17e-6}, {"5 %", 8.2e-6}};
  return densities;
}
constexpr std::string_view kMainDensity = "1 %";

struct Options {
  fs::path scratch;
  fs::path real;
  uint64_t bytes = uint64_t{128} << 20;  // of a step: a pair is far larger than a core's caches
  size_t rounds = 15;
  bool copy_only = false;
};

struct StepPair {
  std::string label;
  Checkpoint before;
  Checkpoint after;
};

ByteSpan ChunkAt(ByteSpan bytes, size_t chunk) {
  const uint64_t begin = chunk * kChunkBytes;
  return bytes.subspan(begin, std::min<uint64_t>(kChunkBytes, bytes.size() - begin));
}

// All tensors of a checkpoint, one after another, as if they were one.
ByteVector Concatenate(const Checkpoint& checkpoint) {
  ByteVector bytes;
  bytes.reserve(checkpoint.tensor_bytes());
  for (const Checkpoint::Tensor& tensor : checkpoint.tensors()) {
    const ByteSpan data = checkpoint.Data(tensor);
    bytes.insert(bytes.end(), data.begin(), data.end());
  }
  return bytes;
}

double GigabytesPerSecond(uint64_t bytes, const std::vector<double>& seconds) {
  return static_cast<double>(bytes) / Median(seconds) / 1e9;
}

// Everything that the timed loops of one pair of steps work on.
class Workbench {
 public:
  explicit Workbench(const StepPair& pair)
      : before_(Concatenate(pair.before)), after_(Concatenate(pair.after)), work_(before_) {
    scanned_.resize(codec::kChunkUnits + codec::kScanSlack);
    for (size_t chunk = 0; chunk * kChunkBytes < before_.size(); ++chunk) {
      const size_t count = ScanInto(before_, after_, chunk);
      changes_.emplace_back(scanned_.begin(),
                            scanned_.begin() + static_cast<std::ptrdiff_t>(count));
      changed_ += count;
    }
    payloads_.resize(changes_.size());
  }

  uint64_t bytes() const { return before_.size(); }
  uint64_t changed() const { return changed_; }

  void Copy() { std::memcpy(work_.data(), before_.data(), before_.size()); }
  void CompareEqual() {
    Check(std::memcmp(work_.data(), before_.data(), before_.size()) == 0, "memcmp");
  }
  void ScanEqual() { Check(ScanAll(work_) == 0, "scan of equal data"); }
  void ScanPair() { Check(ScanAll(after_) == changed_, "scan"); }
  void Diff() {
    for (size_t chunk = 0; chunk < changes_.size(); ++chunk) {
      Consume(codec::ScanChunk(ChunkAt(before_, chunk), ChunkAt(after_, chunk), kUnitBytes, true)
                  .changed);
    }
  }
  void Encode() {
    for (size_t chunk = 0; chunk < changes_.size(); ++chunk) {
      payloads_[chunk].clear();
      if (changes_[chunk].empty()) continue;
      codec::EncodeDirect(ChunkAt(before_, chunk), ChunkAt(after_, chunk), kUnitBytes,
                          changes_[chunk], &payloads_[chunk]);
    }
  }
  // After Encode and Copy.
  void Apply() {
    for (size_t chunk = 0; chunk < changes_.size(); ++chunk) {
      if (payloads_[chunk].empty()) continue;
      const MutableByteSpan whole(work_);
      codec::ApplyChunk(Encoding::kDirect, kUnitBytes, payloads_[chunk],
                        whole.subspan(chunk * kChunkBytes, ChunkAt(work_, chunk).size()));
    }
  }
  void CheckApplied() const { Check(work_ == after_, "apply"); }
  void DigestLeaves() {
    std::vector<Xxh128Digest> leaves;
    tensor::AppendLeafDigests(before_, &leaves);
    Consume(leaves.size());
  }
  void DigestSha256() { Consume(std::to_integer<uint64_t>(Sha256(before_).bytes[0])); }

 private:
  static void Check(bool good, std::string_view what) {
    if (!good) Throw(ErrorCode::kInternal, "bench: {} gave a wrong result", what);
  }
  size_t ScanInto(ByteSpan before, ByteSpan after, size_t chunk) {
    return codec::ScanChanged(ChunkAt(before, chunk), ChunkAt(after, chunk), kUnitBytes, 0,
                              scanned_.data());
  }
  size_t ScanAll(ByteSpan other) {
    size_t changed = 0;
    for (size_t chunk = 0; chunk < changes_.size(); ++chunk) {
      changed += ScanInto(before_, other, chunk);
    }
    return changed;
  }

  ByteVector before_;
  ByteVector after_;
  ByteVector work_;
  std::vector<uint32_t> scanned_;
  std::vector<std::vector<uint32_t>> changes_;  // per chunk
  std::vector<ByteVector> payloads_;            // per chunk
  uint64_t changed_ = 0;
};

// A loop's rows: its speed in bytes of one side of the pair, and its ratio to a reference loop.
void PrintSpeed(std::string_view bench, const std::string& test_case, uint64_t bytes,
                const std::vector<double>& seconds, std::string_view reference_name,
                const std::vector<double>& reference, Target goal = {}) {
  PrintRow(bench, test_case, "speed", GigabytesPerSecond(bytes, seconds), "GB/s");
  PrintRow(bench, test_case, fmt::format("speed / {}", reference_name),
           SpeedRatio(seconds, reference), "ratio", goal);
}

void PrintPerChange(std::string_view bench, const std::string& test_case, uint64_t changed,
                    const std::vector<double>& seconds) {
  PrintRow(bench, test_case, "time per change",
           Median(seconds) * 1e9 / static_cast<double>(changed), "ns");
}

// What does not depend on the density of changes.
void TimeMemoryLoops(Workbench* bench, size_t rounds) {
  const auto seconds = TimeInTurn({{[=] { bench->Copy(); }},
                                   {[=] { bench->CompareEqual(); }},
                                   {[=] { bench->ScanEqual(); }},
                                   {[=] { bench->DigestLeaves(); }},
                                   {[=] { bench->DigestSha256(); }}},
                                  rounds);
  const uint64_t bytes = bench->bytes();
  PrintRow("memory", "memcpy", "speed", GigabytesPerSecond(bytes, seconds[0]), "GB/s");
  PrintRow("memory", "memcmp of equal data", "speed", GigabytesPerSecond(bytes, seconds[1]),
           "GB/s");
  PrintSpeed("scan", fmt::format("equal data on {}", codec::ScanTarget()), bytes, seconds[2],
             "memcmp", seconds[1], kScanGoal);
  PrintSpeed("digest", "XXH3-128 leaves", bytes, seconds[3], "memcpy", seconds[0]);
  PrintSpeed("digest", "SHA-256", bytes, seconds[4], "memcpy", seconds[0]);
}

// memcmp stops at the first difference, so its reference is the compare of equal data.
void TimeChangeLoops(const std::string& label, Workbench* bench, size_t rounds) {
  const auto seconds = TimeInTurn({{[=] { bench->Copy(); }},
                                   {[=] { bench->CompareEqual(); }},
                                   {[=] { bench->ScanPair(); }},
                                   {[=] { bench->Diff(); }},
                                   {[=] { bench->Encode(); }},
                                   {[=] { bench->Apply(); }, [=] { bench->Copy(); }}},
                                  rounds);
  bench->CheckApplied();
  const uint64_t bytes = bench->bytes();
  const std::string changed = label + " changed";
  PrintSpeed("scan", changed, bytes, seconds[2], "memcmp", seconds[1]);
  PrintSpeed("scan+digest+encode", changed, bytes, seconds[3], "memcpy", seconds[0]);
  PrintSpeed("encode direct", changed, bytes, seconds[4], "memcpy", seconds[0]);
  PrintPerChange("encode direct", changed, bench->changed(), seconds[4]);
  PrintSpeed("apply direct", changed, bytes, seconds[5], "memcpy", seconds[0]);
  PrintPerChange("apply direct", changed, bench->changed(), seconds[5]);
}

// The bytes of the file that `isthmus diff` writes, and the units that changed.
std::pair<uint64_t, uint64_t> PatchBytes(const StepPair& pair, codec::EncodingPolicy policy,
                                         ThreadPool& pool) {
  codec::PartBuilder part;
  const codec::DiffResult diff = codec::DiffCheckpoints(
      pair.before, pair.after, policy, pool, NoProgress(), [&part](codec::TensorDiff change) {
        part.AddTensor(std::move(change.entry), std::move(change.payloads));
      });
  codec::AddFileChanges(pair.after, diff.base, diff.next, &part);
  const codec::VersionPair versions = {diff.base.Digest(), diff.next.Digest()};
  return {part.Finish(versions, [](ByteSpan) {}), diff.changed};
}

std::vector<TensorPair> TensorPairs(const StepPair& pair) {
  std::vector<TensorPair> pairs;
  for (size_t i = 0; i < pair.before.tensors().size(); ++i) {
    pairs.push_back(
        {pair.before.Data(pair.before.tensors()[i]), pair.after.Data(pair.after.tensors()[i])});
  }
  return pairs;
}

void PrintSizes(const StepPair& pair, Target direct_goal, ThreadPool& pool) {
  uint64_t changed = 0;
  const auto bits = [&changed](uint64_t bytes) {
    return 8 * static_cast<double>(bytes) / static_cast<double>(changed);
  };
  const std::vector<std::pair<std::string, codec::EncodingPolicy>> policies = {
      {"direct", Encoding::kDirect},
      {"xor", Encoding::kXor},
      {"raw", Encoding::kRaw},
      {"auto", {}}};
  for (const auto& [name, policy] : policies) {
    const auto [bytes, changes] = PatchBytes(pair, policy, pool);
    if (changed == 0) {
      changed = changes;
      PrintRow("size", pair.label, "density",
               100 * static_cast<double>(changed * kUnitBytes) /
                   static_cast<double>(pair.after.tensor_bytes()),
               "%");
    }
    PrintRow("size", pair.label, name, bits(bytes), "bits/change",
             name == "direct" ? direct_goal : Target{});
  }
  for (const PeerScheme scheme :
       {PeerScheme::kDenseXor, PeerScheme::kIndexAndValue, PeerScheme::kShortGapAndValue}) {
    PrintRow("size", pair.label, PeerName(scheme), bits(PeerBytes(scheme, TensorPairs(pair))),
             "bits/change");
  }
}

StepPair Generate(const Options& options, const Density& density, ThreadPool& pool) {
  ModelgenOptions model;
  model.out = options.scratch / fmt::format("lr-{}", density.learning_rate);
  model.bytes = options.bytes;
  model.steps = 2;
  model.learning_rate = density.learning_rate;
  const std::vector<GeneratedStep> steps = GenerateModel(model, pool);
  return {"generated " + density.label, Checkpoint::Open(steps[0].directory),
          Checkpoint::Open(steps[1].directory)};
}

// Density falls from pair to pair of consecutive steps to pairs further apart; the bits per change
// fall with rising density, so the first pair is the hardest for the goal "at 1 %".
void MeasureReal(const fs::path& real, ThreadPool& pool) {
  const std::vector<std::pair<int, int>> pairs = {{37, 38}, {37, 39}, {37, 40}};
  for (const auto& [from, to] : pairs) {
    PrintSizes({fmt::format("real {} to {}", from, to),
                Checkpoint::Open(real / fmt::format("step-{}", from)),
                Checkpoint::Open(real / fmt::format("step-{}", to))},
               to < 40 ? kDirectBitsGoal : Target{}, pool);
  }
}

void TimeCopyOnly(const Options& options) {
  const ByteVector from(options.bytes, std::byte{1});
  ByteVector to(options.bytes);
  const auto seconds =
      TimeInTurn({{[&] { std::memcpy(to.data(), from.data(), from.size()); }}}, options.rounds);
  Consume(std::to_integer<uint64_t>(to.back()));
  PrintRow("memory", "memcpy", "speed", GigabytesPerSecond(options.bytes, seconds[0]), "GB/s");
}

void Run(const Options& options) {
  PrintHeader();
  if (options.copy_only) return TimeCopyOnly(options);
  if (options.scratch.empty()) Throw(ErrorCode::kInvalid, "SCRATCH is required");
  ThreadPool pool;
  if (!options.real.empty()) MeasureReal(options.real, pool);
  for (const Density& density : Densities()) {
    const StepPair pair = Generate(options, density, pool);
    Workbench bench(pair);
    if (density.label == kMainDensity) TimeMemoryLoops(&bench, options.rounds);
    TimeChangeLoops(density.label, &bench, options.rounds);
    PrintSizes(pair, {}, pool);
  }
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Times the codec on one core and prints CSV (docs/benchmarks.md).");
  app.add_option("SCRATCH", options.scratch, "directory for generated models, new or empty");
  app.add_option("--real", options.real, "directory with the real step-37 ... step-40");
  app.add_option("--bytes", options.bytes, "bytes of a generated step")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--rounds", options.rounds, "timed runs of each loop")->capture_default_str();
  app.add_flag("--copy-only", options.copy_only, "time memcpy and nothing else; needs no SCRATCH");
  try {
    app.parse(argc, argv);
    Run(options);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "isthmus-bench-codec: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace isthmus::bench

int main(int argc, char** argv) { return isthmus::bench::Main(argc, argv); }
