// The local checkpoint that follows a run.
#ifndef ISTHMUS_REPLICA_REPLICA_H_
#define ISTHMUS_REPLICA_REPLICA_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/replica/planner.h"
#include "isthmus/replica/state.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::replica {

class ChainSearch;
class ChangeRecorder;

// What a version's log entry says, for those who watch a run.
struct VersionFacts {
  board::VersionNumber version = board::kNoVersion;
  std::optional<uint64_t> patch_bytes;  // of its patch from its parent, if it has one
  uint64_t changed = 0;                 // units that differ from the parent, of
  uint64_t elements = 0;
  WallTime created_at;
  std::map<std::string, std::string> meta;  // the user's; empty if above kMaxShownMetaBytes
};
inline constexpr size_t kMaxShownMetaBytes = 1024;
VersionFacts FactsOf(const board::Manifest& manifest);

// What a pull in place changed.
struct KeptChanges {
  fs::path file;      // docs/changes-file.md
  Sha256Digest base;  // of the version before
};

// What Pull did.
struct PullResult {
  board::VersionNumber from = board::kNoVersion;  // what was held before
  board::VersionNumber to = board::kNoVersion;
  // The payloads used, oldest first, for example "anchor 1", "patch 2".
  std::vector<std::string> chain;
  uint64_t fetched_bytes = 0;
  std::vector<std::string> notes;      // what the user should know: recoveries, reseeding
  std::vector<VersionFacts> read;      // of the log entries on its way, in no order
  std::optional<KeptChanges> changes;  // if they are kept, and it was one
};

// A directory with a Hugging Face checkpoint at one verified version, or at none, and a hidden
// control directory (.isthmus). Holds an exclusive lock on it. Not thread-safe; works on all
// threads of the pool. The pool and the progress must outlive it.
class Replica {
 public:
  // Opens a replica or begins one: the directory is created if it is missing; kInvalid if it holds
  // files but no replica; kConflict if another process has it open. What a crash left is brought
  // back to a verified version first: an interrupted in-place change is undone, an interrupted
  // replacement completed; after a reboot everything is verified. If the result is no verified
  // version, the replica is at none.
  Replica(const fs::path& directory, ThreadPool& pool, Progress& progress);
  ~Replica();

  const fs::path& directory() const { return directory_; }
  // nullopt: at no version.
  const std::optional<ReplicaState>& state() const { return state_; }
  // Only at a version.
  const tensor::VersionTable& table() const { return table_; }

  // Brings the replica to `version` of the run, forward or back, along the cheapest chain; if it is
  // there already, verifies it. The
  // files never hold anything but the old version, the new one, or (seen as "at none" by every
  // reader of the state) a mixture that the journal can take back. On error the replica is still at
  // the old version unless notes of the next Open say otherwise.
  // kNotFound: no such version, or no chain to it. kInvalid: the replica follows another run or
  // board. A payload that is missing or not what the manifest says is left out and the next best
  // chain tried; if none is left, its error is thrown. If the local files turn out to be damaged,
  // the replica is rebuilt from an anchor.
  PullResult Pull(const board::Board& board, const std::string& run, board::VersionNumber version);

  // From now on pulls that change the files in place also leave a changes file, whose size is at
  // most half of the checkpoint's: one that would be larger is not made. They stay until
  // DropChanges, or the next Replica here.
  void KeepChanges(bool keep) { keeps_changes_ = keep; }
  void DropChanges();

  // Verifies every byte against the state's table; kCorrupt naming the first difference, kNotReady
  // at no version.
  void Verify();

  // Declares that the replica is at no version. Its files stay.
  void Forget();

  // kInvalid if the replica holds a version of another run or board.
  void CheckFollows(const board::Board& board, const std::string& run) const;

 private:
  void Recover();
  void ReadHeldVersion();
  void TakeBackInterrupted();
  // At the table's version after a full verification, else at none; `why` becomes a note.
  void VerifyOrForget(const std::string& why);

  void RunPlan(const board::Board& board, const ChainSearch& search, const Plan& plan,
               std::optional<KeptChanges>* changes);
  void Advance(const board::Board& board, const ChainSearch& search, const Plan& plan,
               std::optional<KeptChanges>* changes);
  std::optional<KeptChanges> WriteChanges(ChangeRecorder* recorder, const ReplicaState& next,
                                          const tensor::VersionTable& table);
  void TakeBack();
  void Seed(const board::Board& board, const ChainSearch& search, const Plan& plan);
  tensor::VersionTable StageAnchor(const board::Board& board, const board::Manifest& manifest,
                                   const PlannedPayload& planned);

  fs::path directory_;
  ControlPaths paths_;
  ThreadPool& pool_;
  Progress& progress_;
  std::unique_ptr<FileLock> lock_;
  std::optional<ReplicaState> state_;
  tensor::VersionTable table_;
  bool keeps_changes_ = false;
  std::vector<std::string> notes_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_REPLICA_H_
