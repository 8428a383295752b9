// One try of one rank to publish a version with the others (docs/ranks.md, "Steps").
#ifndef ISTHMUS_RANKS_ATTEMPT_H_
#define ISTHMUS_RANKS_ATTEMPT_H_

#include <functional>
#include <optional>
#include <vector>

#include "isthmus/ranks/new_chunks.h"
#include "isthmus/ranks/rank_publisher.h"

namespace isthmus::ranks {

// What an attempt works with; all of it must outlive it.
struct AttemptContext {
  board::Board& board;
  const std::string& run;
  uint32_t rank;
  const board::Writer& writer;  // the lead's
  RankBaseline& baseline;
  ThreadPool& pool;
  Progress& progress;
  const std::vector<ShareTensor>& share;
  const RankPublishOptions& options;
  const std::function<void()>& check_unchanged;
};

class Attempt {
 public:
  // `outline`: of the version before the call's.
  Attempt(const AttemptContext& context, const Call& call, tensor::VersionTable outline,
          MonotonicTime deadline);

  // Steps 2 to 8. Throws Error, Refused or AttemptIsOver; then the others have been told.
  RankPublishResult Run();

 private:
  RankPublishResult RunSteps();
  void Claim();
  void AgreeOnPlan();
  std::vector<Holding> CollectClaims();
  void CheckPlanned(const std::vector<Holding>& plan) const;
  void PrepareBaseline();
  void SendSlices();
  void ReceiveSlices();
  void TakeSlicesFrom(uint32_t sender, const std::vector<Slice>& slices);
  void EncodeOwned();
  void GiveReceipt();
  void Decide();
  Verdict AwaitVerdict();
  void AwaitVersion();
  void FollowVersion();
  void CheckParts(const board::Payload& payload) const;
  board::Manifest DraftManifest(const ProvenVersion& proven) const;
  const Assignment& assignment() const { return *assignment_; }
  void CopyOld(const Slice& slice, MutableByteSpan to) const;
  ByteSpan OldOwned(size_t chunk) const;

  AttemptContext context_;
  Meeting meeting_;
  tensor::VersionTable outline_;
  board::Manifest base_;           // the version before
  std::vector<Holding> holdings_;  // of the share's tensors
  std::string plan_;               // its text
  std::optional<Assignment> assignment_;
  std::optional<NewChunks> new_chunks_;
  publish::Upload upload_;
  Receipt receipt_;
  bool told_ = false;  // the others know the outcome, or will find it in the log
  RankPublishResult result_;
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_ATTEMPT_H_
