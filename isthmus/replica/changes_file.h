// What a pull changed, collected while it changes it, as a changes file: for a program that holds
// the version before in memory of its own (docs/changes-file.md).
#ifndef ISTHMUS_REPLICA_CHANGES_FILE_H_
#define ISTHMUS_REPLICA_CHANGES_FILE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/board/manifest.h"
#include "isthmus/codec/old_units.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::replica {

// One end of a change.
struct ChangeEnd {
  board::VersionNumber version = board::kNoVersion;
  Sha256Digest digest;
};

class ChangeRecorder {
 public:
  // For a checkpoint of so many tensors. Positions and bits take at most max_bytes: when there are
  // more, none are kept.
  ChangeRecorder(size_t tensors, uint64_t max_bytes);

  // `range` is what units first_unit and following of the tensor are now; `changes`, ascending,
  // those of them that changed, their positions counted from unit `first` before the range.
  // `sum_change` is what they change of the tensor's position-keyed sum. Thread-safe.
  void Record(size_t tensor, uint64_t first_unit, size_t unit_bytes, ByteSpan range,
              std::span<const codec::OldUnit> changes, uint64_t first, uint64_t sum_change);

  // There were more than may be kept.
  bool overflowed() const { return left_ < 0; }

  // After the last Record, once, and not if it overflowed. `table` is of the version `to`.
  // Complete, not durable, when it returns.
  void Write(const fs::path& path, const std::string& run, const ChangeEnd& from,
             const ChangeEnd& to, const tensor::VersionTable& table);

 private:
  // A stretch of a tensor's units.
  struct Stretch {
    size_t tensor;
    uint64_t first_unit;
    std::vector<uint32_t> positions;  // from first_unit on
    ByteVector bits;
  };
  struct Entry;

  std::vector<Entry> Entries(const tensor::VersionTable& table) const;
  std::string Describe(const tensor::VersionTable& table) const;
  void WritePositions(const Entry& entry, File* file) const;

  std::atomic<int64_t> left_;
  std::vector<std::atomic<uint64_t>> sum_changes_;
  std::mutex mutex_;
  std::vector<Stretch> stretches_;
};

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_CHANGES_FILE_H_
