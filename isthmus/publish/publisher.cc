// Publishing, step by step; the reason is what a crash behind the step leaves.
//   1. The baseline is brought to the head of the log. (A replica: it recovers by itself.)
//   2. The checkpoint is compared with the baseline, whose digest, computed from the very bytes
//   that
//      were compared, must be the head's: nothing can drift.
//   3. Payload objects are stored under a fresh attempt, durable. (Unreferenced objects.)
//   4. The log entry is created if absent: the version exists from here on.
//   5. The baseline follows, through the board like every replica. (Step 1 of the next session.)
#include "isthmus/publish/publisher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/publish/kept_writer.h"
#include "isthmus/publish/upload.h"
#include "isthmus/tensor/checkpoint_write.h"

namespace isthmus::publish {
namespace {

using board::kNoVersion;
using board::VersionNumber;
using tensor::Checkpoint;

// The dtype that most of the bytes have, as the view's name, for example "bf16".
std::string ViewOf(const Checkpoint& checkpoint) {
  std::map<tensor::Dtype, uint64_t> bytes;
  for (const auto& tensor : checkpoint.tensors()) bytes[tensor.info.dtype] += tensor.info.bytes();
  const auto most =
      std::ranges::max_element(bytes, {}, [](const auto& item) { return item.second; });
  std::string name(most == bytes.end() ? "" : tensor::DtypeName(most->first));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.empty() ? "empty" : name;
}

uint64_t UnitsOf(const Checkpoint& checkpoint) {
  uint64_t units = 0;
  for (const auto& tensor : checkpoint.tensors()) {
    units += codec::UnitCount(tensor.info.dtype, tensor.info.bytes());
  }
  return units;
}

fs::path RealPath(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path), error);
  if (error) ThrowErrno(error.value(), "look at", path.string());
  return real.has_filename() ? real : real.parent_path();
}

// Whether `path` is `directory`, or below it.
bool LiesIn(const fs::path& path, const fs::path& directory) {
  const auto [end, unused] =
      std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
  return end == directory.end();
}

// A directory that is gone when this is.
class ScratchTree {
 public:
  explicit ScratchTree(fs::path path) : path_(std::move(path)) { RemoveTree(path_); }
  ~ScratchTree() {
    try {
      RemoveTree(path_);
    } catch (const std::exception&) {  // the next one removes it
    }
  }
  ScratchTree(const ScratchTree&) = delete;
  ScratchTree& operator=(const ScratchTree&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Throws unless the tensors are still what the table says.
void CheckStill(const Checkpoint& checkpoint, const tensor::VersionTable& table, ThreadPool& pool,
                Progress& progress) {
  const tensor::VersionTable now = tensor::DigestCheckpoint(checkpoint, pool, progress);
  for (size_t i = 0; i < now.tensors.size(); ++i) {
    if (now.tensors[i] == table.tensors[i]) continue;
    Throw(ErrorCode::kConflict, "publish tensor {}: it changed while it was read",
          now.tensors[i].name);
  }
}

void AddFiles(const tensor::VersionTable& table, board::Manifest* manifest) {
  for (const auto& file : table.files) manifest->files[file.path] = file.sha256;
}

}  // namespace

void RefuseOverlap(const fs::path& checkpoint, const fs::path& baseline) {
  const fs::path a = RealPath(checkpoint);
  const fs::path b = RealPath(baseline);
  if (!LiesIn(a, b) && !LiesIn(b, a)) return;
  Throw(ErrorCode::kInvalid, "publish {}: the baseline {} is in the same place, name another one",
        checkpoint.string(), baseline.string());
}

Publisher::Publisher(board::Board& board, std::string run, const fs::path& baseline,
                     ThreadPool& pool, Progress& progress)
    : board_(board),
      run_(std::move(run)),
      pool_(pool),
      progress_(progress),
      baseline_(baseline, pool, progress) {
  board::CheckRunName(run_);
  baseline_.CheckFollows(board_, run_);
  head_ = board_.Head(run_);
  CatchUp(head_, &notes_);
}

void Publisher::CatchUp(VersionNumber version, std::vector<std::string>* notes) {
  if (version == kNoVersion) return;
  const std::optional<replica::ReplicaState>& held = baseline_.state();
  const std::optional<board::Manifest> manifest = board_.Read(run_, version);
  // At the head already: the comparison verifies it, from the very bytes that it compares.
  if (held && manifest && held->version == version && held->digest == manifest->digest) return;
  replica::PullResult pulled = baseline_.Pull(board_, run_, version);
  std::ranges::move(pulled.notes, std::back_inserter(*notes));
}

void Publisher::RebuildBaseline(std::vector<std::string>* notes) {
  notes->emplace_back("the baseline was damaged and has been rebuilt from the board");
  baseline_.Forget();
  CatchUp(head_, notes);
}

// Damage that shows in the files' structure; damage of tensor bytes shows in their digest later.
Checkpoint Publisher::OpenBaseline(std::vector<std::string>* notes) {
  try {
    return Checkpoint::Open(baseline_.directory());
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    RebuildBaseline(notes);
    return Checkpoint::Open(baseline_.directory());
  }
}

PublishResult Publisher::Publish(const fs::path& directory, const PublishOptions& options) {
  RefuseOverlap(directory, baseline_.directory());
  return Publish(Checkpoint::Open(directory), options);
}

PublishResult Publisher::Publish(const Checkpoint& checkpoint, const PublishOptions& options) {
  RefuseOverlap(checkpoint.directory(), baseline_.directory());
  const fs::path id_path = replica::ControlPaths(baseline_.directory()).root / "writer";
  writer_ = OpenKeptWriter(board_, run_, ViewOf(checkpoint), id_path);

  PublishResult result;
  result.notes = std::exchange(notes_, {});
  CatchUp(head_, &result.notes);  // nothing to do, unless it failed after the last commit
  result.manifest = Draft(checkpoint, options);
  if (head_ == kNoVersion) {
    result.anchor_reason = "first version of the run";
  } else {
    result.anchor_reason = codec::WhyNoPatch(OpenBaseline(&result.notes), checkpoint).value_or("");
  }
  if (result.anchor_reason.empty()) {
    PublishPatch(checkpoint, options, &result);
  } else if (checkpoint.in_memory()) {
    PublishAnchorFromMemory(checkpoint, &result);
  } else {
    PublishAnchor(checkpoint, &result);
  }
  head_ = result.manifest.version;
  FollowCommit(&result.notes);
  return result;
}

// The version exists, so a baseline that cannot follow now is no failure of the publish.
void Publisher::FollowCommit(std::vector<std::string>* notes) {
  try {
    CatchUp(head_, notes);
  } catch (const std::exception& error) {
    notes->push_back(fmt::format("the baseline could not follow, the next publish brings it up: {}",
                                 error.what()));
  }
}

board::Manifest Publisher::Draft(const Checkpoint& checkpoint,
                                 const PublishOptions& options) const {
  board::Manifest manifest;
  manifest.run = run_;
  manifest.version = head_ + 1;
  manifest.parent = head_;
  manifest.epoch = writer_.epoch;
  manifest.step = options.step;
  manifest.view = ViewOf(checkpoint);
  manifest.tensors = checkpoint.tensors().size();
  manifest.elements = UnitsOf(checkpoint);
  manifest.checkpoint_bytes = checkpoint.total_bytes();
  manifest.meta = options.meta;
  manifest.created_at = SystemClock().Now();
  manifest.producer = "isthmus " ISTHMUS_VERSION;
  return manifest;
}

// What is stored and what is digested must be the same bytes, and nobody else writes these files.
void Publisher::PublishAnchorFromMemory(const Checkpoint& checkpoint, PublishResult* result) {
  const ScratchTree files(replica::ControlPaths(baseline_.directory()).root / "anchor");
  tensor::WriteCheckpoint(checkpoint, files.path(), progress_);
  PublishAnchor(Checkpoint::Open(files.path()), result);
}

void Publisher::PublishAnchor(const Checkpoint& checkpoint, PublishResult* result) {
  board::Manifest& manifest = result->manifest;
  Upload upload(board_, run_, manifest.version);
  const tensor::VersionTable table = StoreAndDigest(checkpoint, &upload);
  manifest.digest = table.Digest();
  manifest.changed = manifest.elements;
  AddFiles(table, &manifest);
  manifest.payloads = {{board::PayloadKind::kAnchor, kNoVersion, "", upload.parts()}};
  Commit(manifest, &upload);
}

// What is stored and what is digested are the same bytes only if nobody writes in between. If
// somebody does, whatever goes wrong is about that.
tensor::VersionTable Publisher::StoreAndDigest(const Checkpoint& checkpoint, Upload* upload) {
  try {
    upload->AddCheckpoint(checkpoint, pool_, progress_);
    tensor::VersionTable table = tensor::DigestCheckpoint(checkpoint, pool_, progress_);
    checkpoint.CheckUnchanged();
    return table;
  } catch (const Error&) {
    checkpoint.CheckUnchanged();
    throw;
  }
}

void Publisher::PublishPatch(const Checkpoint& checkpoint, const PublishOptions& options,
                             PublishResult* result) {
  board::Manifest& manifest = result->manifest;
  std::optional<Upload> upload(std::in_place, board_, run_, manifest.version);
  if (!DiffAgainstBaseline(checkpoint, options, &*upload, result)) {
    RebuildBaseline(&result->notes);
    upload.emplace(board_, run_, manifest.version);
    if (!DiffAgainstBaseline(checkpoint, options, &*upload, result)) {
      Throw(ErrorCode::kCorrupt, "check baseline {}: it is not version {} after it was rebuilt",
            baseline_.directory().string(), head_);
    }
  }
  manifest.payloads = {{board::PayloadKind::kPatch, head_, codec::JoinEncodings(result->encodings),
                        upload->parts()}};
  Commit(manifest, &*upload);
}

void Publisher::Commit(const board::Manifest& manifest, Upload* upload) {
  board_.CheckWriter(writer_);
  try {
    board_.Commit(writer_, manifest);
    upload->Keep();
  } catch (const Error& error) {
    // Only these say that the entry was not stored. Else its objects may belong to a version.
    const bool not_stored =
        error.code() == ErrorCode::kConflict || error.code() == ErrorCode::kInvalid;
    if (!not_stored) upload->Keep();
    throw;
  }
}

// False if the baseline turned out not to be the head: then nothing of the result counts.
bool Publisher::DiffAgainstBaseline(const Checkpoint& checkpoint, const PublishOptions& options,
                                    Upload* upload, PublishResult* result) {
  const Checkpoint baseline = Checkpoint::Open(baseline_.directory());
  codec::PartBuilder part;
  codec::DiffResult diff = codec::DiffCheckpoints(baseline, checkpoint, options.encoding, pool_,
                                                  progress_, [&](codec::ChunkDiff change) {
                                                    codec::AddChunkDiff(std::move(change), &part);
                                                    if (part.payload_bytes() >= options.part_bytes)
                                                      upload->AddPart(&part);
                                                  });
  if (diff.base.Digest() != baseline_.state()->digest) return false;
  if (options.check_memory && checkpoint.in_memory()) {
    CheckStill(checkpoint, diff.next, pool_, progress_);
  }
  codec::AddFileChanges(checkpoint, diff.base, diff.next, &part);
  upload->AddPart(&part);
  result->manifest.digest = diff.next.Digest();
  result->manifest.changed = diff.changed;
  AddFiles(diff.next, &result->manifest);
  result->tensors_changed = diff.tensors_changed;
  result->encodings = std::move(diff.encodings);
  return true;
}

}  // namespace isthmus::publish
