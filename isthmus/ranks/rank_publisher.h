// One of many ranks that publish a version together (docs/ranks.md).
#ifndef ISTHMUS_RANKS_RANK_PUBLISHER_H_
#define ISTHMUS_RANKS_RANK_PUBLISHER_H_

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "isthmus/base/progress.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/codec/chunk_encode.h"
#include "isthmus/publish/upload.h"
#include "isthmus/ranks/baseline.h"
#include "isthmus/ranks/meeting.h"
#include "isthmus/ranks/proof.h"

namespace isthmus::ranks {

// Which of how many. Rank 0 leads.
struct RankPlace {
  uint32_t rank = 0;
  uint32_t ranks = 1;
};

struct RankPublishOptions {
  int64_t step = 0;  // the trainer's optimizer step: by it ranks know that they mean the same
  codec::EncodingPolicy encoding;            // nullopt: by cost
  std::map<std::string, std::string> meta;   // the lead's counts
  uint64_t part_bytes = uint64_t{64} << 20;  // a patch is uploaded in parts of about this size
  // For the lead's waiting together; the other ranks wait a fifth longer.
  std::chrono::milliseconds deadline{600'000};
};

struct RankPublishResult {
  board::Manifest manifest;  // as committed
  uint64_t owned_chunks = 0;
  uint64_t sent_bytes = 0;      // of slices, to other ranks
  uint64_t uploaded_bytes = 0;  // of the patch
  uint64_t baseline_bytes = 0;
  std::vector<std::string> notes;
};

// Publishes versions of a run together with the other ranks, one at a time. Keeps its baseline in a
// directory of its own, whose lock it holds. The board, the pool and the progress must outlive it.
// Not thread-safe.
class RankPublisher {
 public:
  // kInvalid: no rank below `ranks`, or more than kMaxRanks. Else as RankBaseline.
  RankPublisher(board::Board& board, std::string run, RankPlace place, const fs::path& baseline,
                ThreadPool& pool, Progress& progress);

  // Returns when the version is durable in the log. The share must not change meanwhile;
  // `check_unchanged` (may be empty) throws if it did, and is asked before the receipt. On error
  // this rank knows of no version made: kInvalid the shares are not those of the run's model, or
  // do not cover it; kConflict another lead, another process as this rank, or another version came
  // between; kUnavailable a rank or the lead did not come within the deadline, and then the version
  // may still be committed.
  RankPublishResult Publish(const std::vector<ShareTensor>& share,
                            const RankPublishOptions& options,
                            const std::function<void()>& check_unchanged = {});

 private:
  Call CallTogether(const RankPublishOptions& options, tensor::VersionTable* outline);
  Call Join(const RankPublishOptions& options, MonotonicTime deadline,
            tensor::VersionTable* outline);

  bool IsTaken(const Call& call) const;

  board::Board& board_;
  std::string run_;
  RankPlace place_;
  ThreadPool& pool_;
  Progress& progress_;
  RankBaseline baseline_;
  board::Writer writer_;        // the lead's
  std::set<std::string> over_;  // attempts that are
  std::string found_;           // the attempt that was there when the publish began
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_RANK_PUBLISHER_H_
