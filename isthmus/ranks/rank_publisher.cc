#include "isthmus/ranks/rank_publisher.h"

#include <fmt/format.h>

#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/publish/kept_writer.h"
#include "isthmus/ranks/attempt.h"

namespace isthmus::ranks {
namespace {

constexpr uint64_t kMaxOutlineBytes = board::kMaxManifestBytes;

RankPlace Checked(RankPlace place) {
  if (place.ranks >= 1 && place.ranks <= kMaxRanks && place.rank < place.ranks) return place;
  Throw(ErrorCode::kInvalid,
        "publish as rank {} of {}: expected a rank below the ranks, at most {}", place.rank,
        place.ranks, kMaxRanks);
}

// The lead gives up first: it can say who did not come, and the others hear it.
std::chrono::milliseconds Patient(std::chrono::milliseconds deadline, const RankPlace& place) {
  return place.rank == 0 ? deadline : deadline + deadline / 5;
}

std::string OutlineKey(const std::string& run, const Call& call) {
  return board::Board::PartKey(run, call.version, call.attempt, std::string(kOutlineName));
}

std::string DescribeCall(const std::optional<Call>& call) {
  if (!call) return "there is none";
  return fmt::format(
      "the last one is for step {}, version {}, {} ranks; it is over if it is this one's",
      call->step, call->version, call->ranks);
}

}  // namespace

RankPublisher::RankPublisher(board::Board& board, std::string run, RankPlace place,
                             const fs::path& baseline, ThreadPool& pool, Progress& progress)
    : board_(board),
      run_(std::move(run)),
      place_(Checked(place)),
      pool_(pool),
      progress_(progress),
      baseline_(baseline) {
  board::CheckRunName(run_);
}

RankPublishResult RankPublisher::Publish(const std::vector<ShareTensor>& share,
                                         const RankPublishOptions& options,
                                         const std::function<void()>& check_unchanged) {
  const MonotonicTime deadline = MonotonicNow() + Patient(options.deadline, place_);
  if (place_.rank != 0) {
    const std::optional<Call> found = ReadCurrentCall(board_, run_);
    found_ = found ? found->attempt : "";
  }
  for (bool rebuilt = false;;) {
    tensor::VersionTable outline;
    const Call call =
        place_.rank == 0 ? CallTogether(options, &outline) : Join(options, deadline, &outline);
    const AttemptContext context = {board_, run_,      place_.rank, writer_, baseline_,
                                    pool_,  progress_, share,       options, check_unchanged};
    over_.insert(call.attempt);  // whatever comes of it, it is not joined again
    try {
      return Attempt(context, call, std::move(outline), deadline).Run();
    } catch (const AttemptIsOver&) {
      continue;
    } catch (const Refused& refused) {
      const Refusal& why = refused.refusal;
      if (why.baselines) baseline_.Forget();
      if (!why.baselines || std::exchange(rebuilt, true)) {
        throw Error(why.code, fmt::format("publish version {} of run {} with {} ranks: {}",
                                          call.version, run_, place_.ranks, why.reason));
      }
    }
  }
}

Call RankPublisher::CallTogether(const RankPublishOptions& options, tensor::VersionTable* outline) {
  const board::VersionNumber head = board_.Head(run_);
  const std::optional<board::Manifest> manifest = board_.Read(run_, head);
  if (!manifest) {
    Throw(
        ErrorCode::kInvalid,
        "publish run {} with {} ranks: it has no version yet, publish the checkpoint that training "
        "starts from first, as one process",
        run_, place_.ranks);
  }
  writer_ = publish::OpenKeptWriter(board_, run_, manifest->view, baseline_.directory() / "writer");
  *outline = baseline_.OutlineOf(board_, *manifest, pool_, progress_);
  for (auto& tensor : outline->tensors) tensor.digest = {};
  const ByteVector table = outline->Serialize();
  const Call call = {head + 1, RandomId(), options.step, place_.ranks, Sha256(table)};
  board_.store().Put(OutlineKey(run_, call), table);
  PutCall(board_, run_, call);
  return call;
}

// A call to a version that exists is an old one.
Call RankPublisher::Join(const RankPublishOptions& options, MonotonicTime deadline,
                         tensor::VersionTable* outline) {
  std::optional<Call> call;
  const auto what = [&] {
    return fmt::format("the lead's call to publish step {} of run {} with {} ranks: {}",
                       options.step, run_, place_.ranks, DescribeCall(call));
  };
  for (Patience patience(deadline, progress_);; patience.Pause(what)) {
    call = ReadCurrentCall(board_, run_);
    if (!call || call->step != options.step || call->ranks != place_.ranks) continue;
    if (over_.contains(call->attempt) || board_.Exists(run_, call->version)) continue;
    if (IsTaken(*call)) continue;
    const auto table = board_.store().Get(OutlineKey(run_, *call), kMaxOutlineBytes);
    if (!table || Sha256(AsBytes(*table)) != call->outline) continue;
    *outline = tensor::VersionTable::Parse(AsBytes(*table));
    return *call;
  }
}

// Answered as this rank by another process; or decided, and from before: an attempt of trainers
// that may be gone.
bool RankPublisher::IsTaken(const Call& call) const {
  const Meeting meeting(board_, run_, call, place_.rank, MonotonicNow(), progress_);
  const auto exists = [&](const std::string& name) {
    return board_.store().Size(meeting.Key(name)).has_value();
  };
  return exists(Meeting::NameOf(kClaimKind, place_.rank)) ||
         (call.attempt == found_ && exists(std::string(kVerdictName)));
}

}  // namespace isthmus::ranks
