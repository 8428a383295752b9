// Opening and recovering. Pull is in replica_pull.cc.
#include "isthmus/replica/replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/replica/chain_apply.h"
#include "isthmus/replica/journal.h"
#include "isthmus/replica/staged_swap.h"

namespace isthmus::replica {
namespace {

bool HoldsFiles(const fs::path& directory) {
  if (!Exists(directory)) return false;
  if (!fs::is_directory(directory)) {
    Throw(ErrorCode::kInvalid, "open replica {}: not a directory", directory.string());
  }
  return !VisibleFiles(directory).empty();
}

void PrepareDirectory(const fs::path& directory, const ControlPaths& paths) {
  if (directory.empty()) Throw(ErrorCode::kInvalid, "open replica: the directory's name is empty");
  if (Exists(paths.marker())) return;
  if (HoldsFiles(directory)) {
    Throw(ErrorCode::kInvalid,
          "open replica {}: the directory holds files but no replica; name an empty or new one",
          directory.string());
  }
  CreateDirectories(paths.root);
  WriteFileAtomic(paths.marker(), {});
}

}  // namespace

Replica::Replica(const fs::path& directory, ThreadPool& pool, Progress& progress)
    : directory_(directory), paths_(directory), pool_(pool), progress_(progress) {
  PrepareDirectory(directory_, paths_);
  lock_ = std::make_unique<FileLock>(paths_.lock(), "replica " + directory_.string());
  Recover();
}

Replica::~Replica() = default;

void Replica::Recover() {
  const bool swap_pending = FinishSwap(paths_, directory_);
  for (const fs::path& leftover : {paths_.stage(), paths_.fetch(), paths_.changes()}) {
    RemoveTree(leftover);
  }
  ReadHeldVersion();
  if (swap_pending) {
    notes_.emplace_back(state_ ? "completed the replacement that a crash had interrupted"
                               : "gave up a damaged replacement; at no version");
  }
  const std::optional<JournalEntry> pending = Journal::Pending(paths_);
  if (pending && state_ && state_->digest == pending->to) {
    Journal::Discard(paths_);
  } else if (pending) {
    TakeBackInterrupted();
  }
  // Also behind a journal: its removal may be what the disk lost.
  if (state_ && state_->boot_id != BootId()) VerifyOrForget("verified after a reboot");
}

void Replica::ReadHeldVersion() {
  state_ = ReadState(paths_);
  try {
    if (state_) table_ = ReadTable(paths_, state_->digest);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    Forget();
    notes_.push_back(fmt::format("at no version: {}", error.what()));
  }
}

void Replica::TakeBackInterrupted() {
  try {
    Journal::TakeBack(paths_, directory_);
    VerifyOrForget("took back the change that a crash had interrupted");
  } catch (const Error& error) {
    // Files that are gone, or have become something else, cannot be taken back.
    if (!MeansDamage(error) && error.code() != ErrorCode::kInvalid) throw;
    Forget();
    notes_.push_back(fmt::format("at no version: {}", error.what()));
  }
  Journal::Discard(paths_);
}

void Replica::VerifyOrForget(const std::string& why) {
  if (!state_) return;
  try {
    Verify();
    state_->boot_id = BootId();
    // Written only if it says something new: the disk may be full.
    if (ReadState(paths_) != state_) WriteState(paths_, *state_, table_);
    notes_.push_back(why);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    Forget();
    notes_.push_back(fmt::format("{}; at no version: {}", why, error.what()));
  }
}

void Replica::Verify() {
  if (!state_) Throw(ErrorCode::kNotReady, "verify replica {}: at no version", directory_.string());
  VerifyCheckpoint(tensor::Checkpoint::Open(directory_), table_, pool_, progress_);
}

void Replica::Forget() {
  RemoveFile(paths_.state());
  state_.reset();
}

}  // namespace isthmus::replica
