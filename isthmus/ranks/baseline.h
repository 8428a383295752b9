// The old bytes that a rank compares its share with (docs/ranks.md, "A baseline").
#ifndef ISTHMUS_RANKS_BASELINE_H_
#define ISTHMUS_RANKS_BASELINE_H_

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "isthmus/base/mapped_file.h"
#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/ranks/assignment.h"

namespace isthmus::ranks {

// The chunks that a rank owns, and its slices of others', in a file of a directory that it locks.
// Not thread-safe, but for Bytes.
class RankBaseline {
 public:
  // kConflict if another process has the directory; kInvalid if it holds files of others.
  explicit RankBaseline(const fs::path& directory);

  // The outline of `head`, if the baseline was that version; else read from the board.
  tensor::VersionTable OutlineOf(const board::Board& board, const board::Manifest& head,
                                 ThreadPool& pool, Progress& progress) const;

  // Makes it what `rank` needs of `head`, whose outline this is: as it was, or anew from the board.
  // True if anew.
  bool Prepare(const board::Board& board, const board::Manifest& head,
               const tensor::VersionTable& outline, const Assignment& assignment, uint32_t rank,
               ThreadPool& pool, Progress& progress);

  const fs::path& directory() const { return directory_; }
  uint64_t bytes() const { return total_bytes_; }
  // After Prepare. A chunk that is owned, and a slice, by its chunk and first unit.
  ByteSpan Bytes(const Slice& region) const;

  // The bytes changed to those of the next version. Whatever interrupts it between BeginChange and
  // EndChange leaves a baseline of no version.
  void BeginChange();
  void Write(const Slice& region, ByteSpan bytes);
  void EndChange(const board::Manifest& next);
  // It is of no version from now on.
  void Forget();

 private:
  struct State;
  struct Region {
    Slice units;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  std::optional<State> ReadState() const;
  void WriteState(const board::Manifest& version) const;
  void LayOut(const Assignment& assignment, uint32_t rank);
  void Build(const board::Board& board, const board::Manifest& head, ThreadPool& pool,
             Progress& progress);
  const Region& RegionOf(const Slice& units) const;

  fs::path directory_;
  FileLock lock_;
  std::string board_;
  std::map<std::pair<size_t, uint64_t>, Region> regions_;  // by chunk and first unit
  uint64_t total_bytes_ = 0;
  Sha256Digest outline_;
  Sha256Digest contents_;  // of what is where, and of the outline
  std::optional<MappedFile> map_;
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_BASELINE_H_
