// The board and the local checkpoint of an island, worked on beside the loop.
#ifndef ISTHMUS_SIDECAR_STAGER_H_
#define ISTHMUS_SIDECAR_STAGER_H_

#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "isthmus/base/thread_pool.h"
#include "isthmus/net/task.h"
#include "isthmus/replica/replica.h"

namespace isthmus::sidecar {

// The log as it was read.
struct LogReading {
  board::VersionNumber head = board::kNoVersion;  // none: the run has no version
  std::vector<board::VersionNumber> revoked;
};

// What it took to bring the local checkpoint to a version.
struct Staged {
  replica::PullResult pull;
  Sha256Digest digest;   // of the version
  std::string layout;    // LayoutOf it
  double fetch_ms = 0;   // from the board
  double apply_ms = 0;   // decoding, applying, digests of what was touched
  double verify_ms = 0;  // digests of what was not
  double total_ms = 0;
};

// What a stage changed of the local checkpoint.
struct StagedChanges {
  replica::KeptChanges kept;
  board::VersionNumber from = board::kNoVersion;
  board::VersionNumber to = board::kNoVersion;
};

// Equal for versions whose tensors have the same names, dtypes and shapes and whose config.json is
// the same: an engine can go from one to the other by loading. A digest, "sha256:…".
std::string LayoutOf(const tensor::VersionTable& table);

// Used on its loop's thread only. The destructor waits for work that is under way.
class Stager {
 public:
  struct Options {
    std::string board;  // a location, as OpenStore takes it
    store::StoreOptions store;
    std::vector<PublicKey> trusted;  // empty: signatures are not looked at
    std::string run;
    fs::path replica;
    size_t threads = 0;  // for decoding; 0: one per core
  };

  // Opens the replica, which takes back what a crash left (replica.h); the board is opened when it
  // is first needed, so that an island without its board serves what it has.
  Stager(net::Loop& loop, Options options);
  ~Stager();
  Stager(const Stager&) = delete;
  Stager& operator=(const Stager&) = delete;

  const fs::path& checkpoint() const { return options_.replica; }
  // The version that the local checkpoint holds, by its own record; kNoVersion: none.
  board::VersionNumber held() const { return held_; }

  // Of the versions whose log entries were read on the way of the stages that succeeded, the newest
  // kMaxVersions.
  static constexpr size_t kMaxVersions = 50;
  const std::map<board::VersionNumber, replica::VersionFacts>& versions() const {
    return versions_;
  }

  // May run beside Stage. A store that gives no answer within kLogLimit is kUnavailable; the next
  // call waits for the same answer.
  static constexpr std::chrono::seconds kLogLimit{10};
  net::Task<LogReading> ReadLog();
  // Brings the checkpoint to the version and verifies it; verifies it in full if it is there.
  // Errors as Replica::Pull.
  net::Task<Staged> Stage(board::VersionNumber version);
  // Verifies the version that is held, without the board. kNotReady if there is none.
  net::Task<Staged> StageHeld();
  // From the next stage on, changes are kept (Replica::KeepChanges).
  void KeepChanges(bool keep) { keeps_changes_ = keep; }
  // Those that were kept since ForgetChanges, each from where the one before leads: up to the
  // version that is held. Empty if there is a gap.
  const std::vector<StagedChanges>& changes() const { return changes_; }
  // They are needed no more: the files are removed.
  void ForgetChanges();
  // The board is needed no more: waiting for its store ends soon, with kUnavailable, however long
  // its deadline. What has all that it needs goes on to its end.
  void Stop() { stop_.request_stop(); }

 private:
  struct LogJob;

  const board::Board& OpenBoard();
  Staged Run(std::optional<board::VersionNumber> version);
  void Note(std::vector<replica::VersionFacts> read);
  void NoteChanges(const replica::PullResult& pull);
  net::Task<Staged> Work(std::function<Staged()> work);

  net::Loop& loop_;
  std::stop_source stop_;
  Options options_;
  ThreadPool pool_;
  class PhaseClock;
  std::unique_ptr<PhaseClock> clock_;
  std::unique_ptr<replica::Replica> replica_;
  board::VersionNumber held_ = board::kNoVersion;
  std::map<board::VersionNumber, replica::VersionFacts> versions_;
  bool keeps_changes_ = false;
  std::vector<StagedChanges> changes_;
  std::mutex board_mutex_;
  std::optional<board::Board> board_;
  std::shared_ptr<LogJob> log_job_;  // under way
  // Last: joined first.
  net::asio::thread_pool log_worker_{1};
  net::asio::thread_pool stage_worker_{1};
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_STAGER_H_
