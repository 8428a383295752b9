// An in-place change of a checkpoint that a crash at any instruction cannot leave half done.
//
// Steps, in this order; the reason is what the next start finds after a crash behind each:
//   1. undo.log empty, journal.json (atomic): a change may have begun; the log takes it back.
//   2. Changes, each behind its record in undo.log.
//   3. Everything verified.
//   4. The caller's commit point (a replica: state.json). Before it, the next start goes back;
//      behind it, forward: nothing is left to do.
//   5. journal.json removed, then undo.log.
#ifndef ISTHMUS_REPLICA_JOURNAL_H_
#define ISTHMUS_REPLICA_JOURNAL_H_

#include <optional>
#include <string>

#include "isthmus/replica/state.h"
#include "isthmus/replica/undo_log.h"

namespace isthmus::replica {

// What journal.json says: the versions that the change leads between.
struct JournalEntry {
  Sha256Digest from;
  Sha256Digest to;
};

class Journal {
 public:
  // Step 1. The control directory exists; no journal is pending.
  Journal(const ControlPaths& paths, const JournalEntry& entry);

  UndoLog& undo() { return undo_; }
  // Step 5, after the caller's step 4.
  void Finish();

  // The change that a crash interrupted, if there is one. A journal that cannot be read (its write
  // is atomic, so the disk failed) is an interrupted change between unknown versions.
  static std::optional<JournalEntry> Pending(const ControlPaths& paths);
  // Takes back everything recorded, below `directory`. The caller verifies, then discards: until
  // then a crash only means to take back again.
  static void TakeBack(const ControlPaths& paths, const fs::path& directory);
  // Removes the journal of a change that was committed or taken back.
  static void Discard(const ControlPaths& paths);

 private:
  ControlPaths paths_;
  UndoLog undo_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_JOURNAL_H_
