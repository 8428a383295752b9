#include "isthmus/codec/chunk_encode.h"

#include <algorithm>
#include <utility>

#include "isthmus/codec/key_stats.h"
#include "isthmus/codec/model_builder.h"
#include "isthmus/codec/sample.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::codec {
namespace {

// More classes make payloads 1 % smaller and decoding a quarter slower: eight fit the vectors.
constexpr size_t kMaxChosenClasses = 8;

// Below this many payload bits a unit, a sparse encoding wins without a try: raw and xor of a real
// tensor cost at least 2.5 bits a unit (measured: dense XOR + zstd, 19-25 bits a change at 1 %).
constexpr double kCertainSparseBits = 0.5;

// Of so many chunks all blocks are compared to choose classes, of more chunks fewer.
constexpr size_t kSampledChunks = 8;

}  // namespace

// Chunks that share a model.
struct ChunkEncoder::Group {
  std::vector<size_t> chunks;  // their places in the batch
  Elements elements = Elements::kUnits;
  KeyStats stats;
  ClassChoice choice;
  std::optional<ClassRule> rule;
  std::shared_ptr<const Model> model;
};

class ChunkEncoder::Batch {
 public:
  Batch(ChunkEncoder& encoder, std::span<const size_t> numbers)
      : layout_(encoder.layout_),
        numbers_(numbers),
        policy_(encoder.policy_),
        before_(encoder.before_),
        after_(encoder.after_),
        digests_(encoder.digests_),
        pool_(encoder.pool_),
        scans_(encoder.scans_.data(), numbers.size()),
        group_of_(numbers.size()),
        outcomes_(numbers.size()) {}

  std::vector<ChunkOutcome> Run() {
    if (WantsEvents()) MakeGroups();
    pool_.ParallelFor(scans_.size(), [this](size_t i) { Scan(i); });
    pool_.ParallelFor(groups_.size(), [this](size_t g) { BuildModel(&groups_[g]); });
    pool_.ParallelFor(scans_.size(), [this](size_t i) { Encode(i); });
    return std::move(outcomes_);
  }

 private:
  bool WantsEvents() const { return !policy_ || IsSparse(*policy_); }
  const ChunkLayout::Chunk& Info(size_t i) const { return layout_.chunks()[numbers_[i]]; }
  size_t MaxClasses() const { return policy_ == Encoding::kDirect ? 1 : kMaxChosenClasses; }

  ByteSpan Before(size_t i) const {
    thread_local ByteVector scratch;
    return before_(numbers_[i], &scratch);
  }
  ByteSpan After(size_t i) const {
    thread_local ByteVector scratch;
    return after_(numbers_[i], &scratch);
  }

  // Chunks of one tensor, and pools, first get a group each; then neighbours are joined as long as
  // that saves bits.
  void MakeGroups() {
    std::vector<ChunkSample> samples(scans_.size());
    const size_t stride = std::max<size_t>(1, scans_.size() / kSampledChunks);
    pool_.ParallelFor(scans_.size(), [&](size_t i) {
      samples[i] = SampleChunk(Info(i).dtype, Before(i), After(i), stride);
    });
    std::vector<Group> runs;
    for (size_t i = 0; i < scans_.size(); ++i) {
      if (runs.empty() || !SameTensor(runs.back().chunks.back(), i)) runs.emplace_back();
      runs.back().chunks.push_back(i);
    }
    pool_.ParallelFor(runs.size(), [&](size_t r) { Summarize(samples, &runs[r]); });
    JoinRuns(std::move(runs));
    for (size_t g = 0; g < groups_.size(); ++g) {
      const tensor::Dtype dtype = Info(groups_[g].chunks.front()).dtype;
      groups_[g].rule.emplace(groups_[g].choice.thresholds, KeyRuleOf(groups_[g].elements, dtype));
      for (const size_t i : groups_[g].chunks) group_of_[i] = g;
    }
  }

  bool SameTensor(size_t a, size_t b) const {
    return !layout_.IsPool(numbers_[a]) && !layout_.IsPool(numbers_[b]) &&
           layout_.Pieces(Info(a)).front().tensor == layout_.Pieces(Info(b)).front().tensor;
  }

  void Summarize(const std::vector<ChunkSample>& samples, Group* run) const {
    uint64_t changed = 0;
    uint64_t single_code = 0;
    for (const size_t i : run->chunks) {
      changed += samples[i].changed;
      single_code += samples[i].single_code;
    }
    run->elements = ChooseElements(Info(run->chunks.front()).dtype, changed, single_code);
    for (const size_t i : run->chunks) {
      run->stats.Add(run->elements == Elements::kCodes4 ? samples[i].codes : samples[i].units);
    }
    run->choice = ChooseClasses(run->stats, MaxClasses());
  }

  // Most runs stay alone, so what each would cost together with the one before it is found at the
  // same time for all; only behind a join it must be found anew.
  void JoinRuns(std::vector<Group> runs) {
    std::vector<std::optional<ClassChoice>> with_previous(runs.size());
    pool_.ParallelFor(runs.size(), [&](size_t r) {
      if (r > 0) with_previous[r] = ChooseTogether(runs[r - 1], runs[r]);
    });
    bool joined = false;
    for (size_t r = 0; r < runs.size(); ++r) {
      if (joined) with_previous[r] = ChooseTogether(groups_.back(), runs[r]);
      joined = with_previous[r] &&
               with_previous[r]->bits <= groups_.back().choice.bits + runs[r].choice.bits;
      if (joined) {
        Join(runs[r], std::move(*with_previous[r]), &groups_.back());
      } else {
        groups_.push_back(std::move(runs[r]));
      }
    }
  }

  // nullopt: they cannot share a model.
  std::optional<ClassChoice> ChooseTogether(const Group& a, const Group& b) const {
    if (a.elements != b.elements || Info(a.chunks.front()).dtype != Info(b.chunks.front()).dtype) {
      return std::nullopt;
    }
    KeyStats both = a.stats;
    both.Add(b.stats);
    return ChooseClasses(both, MaxClasses());
  }

  static void Join(const Group& run, ClassChoice choice, Group* group) {
    group->stats.Add(run.stats);
    group->choice = std::move(choice);
    group->chunks.insert(group->chunks.end(), run.chunks.begin(), run.chunks.end());
  }

  void Scan(size_t i) {
    ScanRequest request;
    request.digests = digests_;
    if (WantsEvents()) {
      const Group& group = groups_[group_of_[i]];
      request.rule = &*group.rule;
      request.elements = group.elements;
    }
    ScanChunk(layout_, numbers_[i], Before(i), After(i), request, &scans_[i]);
    outcomes_[i].pieces = std::move(scans_[i].pieces);
    outcomes_[i].changed = scans_[i].changed;
  }

  void BuildModel(Group* group) {
    ModelBuilder builder(group->elements, group->choice.thresholds);
    for (const size_t i : group->chunks) {
      if (scans_[i].changed > 0) builder.Add(scans_[i].events);
    }
    group->model = std::make_shared<const Model>(builder.Build());
  }

  void Encode(size_t i) {
    if (scans_[i].changed == 0) return;
    EncodedChunk& out = outcomes_[i].encoded;
    if (WantsEvents()) EncodeAsEvents(i, &out);
    const uint64_t most = Info(i).bytes() + kPayloadSlackBytes;
    const bool fits = !out.payload.empty() && out.payload.size() <= most;
    if (policy_ == Encoding::kRaw || policy_ == Encoding::kXor)
      return EncodeDense(i, *policy_, &out);
    if (policy_ && fits) return;
    if (policy_) return EncodeDense(i, Encoding::kRaw, &out);
    const double bits = 8 * static_cast<double>(out.payload.size());
    if (bits < kCertainSparseBits * static_cast<double>(Info(i).units)) return;
    for (const Encoding dense : {Encoding::kRaw, Encoding::kXor}) {
      EncodedChunk other;
      EncodeDense(i, dense, &other);
      if (out.payload.size() > most || other.payload.size() < out.payload.size()) {
        out = std::move(other);
      }
    }
  }

  void EncodeAsEvents(size_t i, EncodedChunk* out) {
    out->model = groups_[group_of_[i]].model;
    out->encoding = out->model->classes.size() == 1 ? Encoding::kDirect : Encoding::kContext;
    if (policy_) out->encoding = *policy_;
    EncodeSparse(scans_[i].events, *out->model, scans_[i].elements, &out->payload);
  }

  void EncodeDense(size_t i, Encoding encoding, EncodedChunk* out) const {
    *out = {encoding, nullptr, {}};
    const size_t unit_bytes = tensor::UnitBytes(Info(i).dtype);
    if (encoding == Encoding::kRaw) {
      EncodeRaw(After(i), unit_bytes, &out->payload);
    } else {
      EncodeXor(Before(i), After(i), unit_bytes, &out->payload);
    }
  }

  const ChunkLayout& layout_;
  const std::span<const size_t> numbers_;
  const EncodingPolicy policy_;
  const ChunkSource& before_;
  const ChunkSource& after_;
  const bool digests_;
  ThreadPool& pool_;
  std::vector<Group> groups_;
  const std::span<ChunkScan> scans_;  // per chunk, like the following
  std::vector<size_t> group_of_;
  std::vector<ChunkOutcome> outcomes_;
};

ChunkEncoder::ChunkEncoder(const ChunkLayout& layout, EncodingPolicy policy, ChunkSource before,
                           ChunkSource after, ThreadPool& pool, bool digests)
    : layout_(layout),
      policy_(policy),
      before_(std::move(before)),
      after_(std::move(after)),
      pool_(pool),
      digests_(digests) {}

ChunkEncoder::~ChunkEncoder() = default;

std::vector<ChunkOutcome> ChunkEncoder::Encode(std::span<const size_t> chunks) {
  if (scans_.size() < chunks.size()) scans_.resize(chunks.size());
  return Batch(*this, chunks).Run();
}

}  // namespace isthmus::codec
