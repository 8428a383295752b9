// What an in-place change overwrote, so that it can be taken back.
//
// The protocol, per range of a file: the record of the old bytes is appended (one write) before
// the first of them is changed. Replaying all whole records, in any order and any number of times,
// gives the old bytes whatever part of the change had happened; a record that a crash cut short
// belongs to a change that had not begun. Records are in the page cache after the write, so a
// process crash loses none. A power loss may: replicas are verified in full after a reboot.
#ifndef ISTHMUS_REPLICA_UNDO_LOG_H_
#define ISTHMUS_REPLICA_UNDO_LOG_H_

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "isthmus/base/file.h"
#include "isthmus/codec/old_units.h"

namespace isthmus::replica {

// Thread-safe. A record is: u32 body bytes, u64 XXH3-64 of the body, body.
class UndoLog {
 public:
  // Creates the log, or empties an old one.
  explicit UndoLog(const fs::path& path) : file_(File::Create(path)) {}

  // The range that begins at byte `offset` of `file` is to become `range`, units of `unit_bytes`;
  // `changes` are those that differ, in any order, their positions counted from unit `first` before
  // the range. Fewest bytes if positions next to each other in the list are alike in all but their
  // lowest 16 bits.
  void RecordUnits(const std::string& file, uint64_t offset, size_t unit_bytes, ByteSpan range,
                   std::span<const codec::OldUnit> changes, uint64_t first);
  // A whole range: smaller than units where most of it changes.
  void RecordBytes(const std::string& file, uint64_t offset, ByteSpan old_bytes);
  // A whole small file; nullopt if it did not exist.
  void RecordFile(const std::string& file, const std::optional<std::string>& old_content);

  // Takes back, below `directory`, everything that the log at `path` has whole records of. Returns
  // their number; 0 if there is no log. Throws kCorrupt if a record names a place outside of its
  // file, kUnavailable if the disk fails (replay again later).
  static uint64_t Replay(const fs::path& path, const fs::path& directory);

 private:
  void Append(ByteSpan body);

  std::mutex mutex_;
  File file_;
  bool failed_ = false;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_UNDO_LOG_H_
