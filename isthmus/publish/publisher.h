// From a trainer's checkpoint to the next version of a run (docs/board.md, "Publish").
#ifndef ISTHMUS_PUBLISH_PUBLISHER_H_
#define ISTHMUS_PUBLISH_PUBLISHER_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/board/board.h"
#include "isthmus/codec/diff.h"
#include "isthmus/replica/replica.h"

namespace isthmus::publish {

struct PublishOptions {
  codec::EncodingPolicy encoding;  // nullopt: by cost
  std::optional<int64_t> step;     // the trainer's optimizer step
  std::map<std::string, std::string> meta;
  // A patch is uploaded in parts of about this many payload bytes.
  uint64_t part_bytes = uint64_t{64} << 20;
  // Of tensors in memory: reads them once more before the version is committed, and throws
  // kConflict if they are not what was compared. (Files tell by their times that somebody writes
  // them.)
  bool check_memory = false;
};

struct PublishResult {
  board::Manifest manifest;  // as committed
  // Why this version is an anchor, for the user; empty for a patch.
  std::string anchor_reason;
  uint64_t tensors_changed = 0;
  std::map<std::string, uint64_t> encodings;  // name: chunks
  std::vector<std::string> notes;
};

// Throws kInvalid if one of the directories is, or lies in, the other: a baseline is written to and
// cleared, a checkpoint must not be.
void RefuseOverlap(const fs::path& checkpoint, const fs::path& baseline);

// Publishes versions of one run, one at a time. The baseline, against which a checkpoint is
// compared, is a replica that the publisher keeps in a directory of its own: it is what the log
// says was published, never what a trainer remembers. Holds the directory's lock. The board, the
// pool and the progress must outlive it. Not thread-safe.
class Publisher {
 public:
  // Brings the baseline to the head of the run (empty for a new run). Errors as Replica.
  Publisher(board::Board& board, std::string run, const fs::path& baseline, ThreadPool& pool,
            Progress& progress);

  // Commits the checkpoint in `directory` as the next version: the first one, and one that cannot
  // be a patch (codec::WhyNoPatch), as an anchor; an unchanged one as an empty version. When it
  // returns, the version is durable and the baseline holds it (or a note says why it will only
  // later). On error no version was made and the baseline is still the head; kConflict: another
  // writer took the run or this number, or the checkpoint changed while it was read.
  PublishResult Publish(const fs::path& directory, const PublishOptions& options);
  // The same for a checkpoint that is open, and so for one whose tensors lie in memory
  // (Checkpoint::OpenWithData). They must not change meanwhile. A patch is made of them where they
  // are; for an anchor they are written to files in the baseline's control directory first.
  PublishResult Publish(const tensor::Checkpoint& checkpoint, const PublishOptions& options);

 private:
  board::Manifest Draft(const tensor::Checkpoint& checkpoint, const PublishOptions& options) const;
  void PublishAnchorFromMemory(const tensor::Checkpoint& checkpoint, PublishResult* result);
  void PublishAnchor(const tensor::Checkpoint& checkpoint, PublishResult* result);
  tensor::VersionTable StoreAndDigest(const tensor::Checkpoint& checkpoint, class Upload* upload);
  void PublishPatch(const tensor::Checkpoint& checkpoint, const PublishOptions& options,
                    PublishResult* result);
  bool DiffAgainstBaseline(const tensor::Checkpoint& checkpoint, const PublishOptions& options,
                           class Upload* upload, PublishResult* result);
  tensor::Checkpoint OpenBaseline(std::vector<std::string>* notes);
  void FollowCommit(std::vector<std::string>* notes);
  void RebuildBaseline(std::vector<std::string>* notes);
  void Commit(const board::Manifest& manifest, class Upload* upload);
  void CatchUp(board::VersionNumber version, std::vector<std::string>* notes);

  board::Board& board_;
  std::string run_;
  ThreadPool& pool_;
  Progress& progress_;
  replica::Replica baseline_;
  board::VersionNumber head_ = board::kNoVersion;
  board::Writer writer_;
  std::vector<std::string> notes_;
};

}  // namespace isthmus::publish

#endif  // ISTHMUS_PUBLISH_PUBLISHER_H_
