// Ranks that publish together, as threads of one process. Processes that die:
// crash/ranks_kill_test.
#include <gmock/gmock.h>

#include <future>

#include "isthmus/ranks/rank_publisher.h"
#include "isthmus/upkeep/fork.h"
#include "tests/integration/main_job.h"
#include "tests/support/seed.h"

namespace isthmus::ranks {
namespace {

using testing::ExpectError;
using ::testing::HasSubstr;
using testing::ModelTensor;

// A rank's rows of every tensor, as they lie in the model's memory: `parts` of the ranks' equal
// rows, the last rank may have fewer or none. Tensors without rows go to rank 0.
std::vector<ShareTensor> ShareOf(const testing::Model& model, uint32_t rank, uint32_t ranks) {
  std::vector<ShareTensor> share;
  for (const ModelTensor& tensor : model.tensors) {
    const uint64_t all = tensor.shape.empty() ? 1 : tensor.shape.front();
    const uint64_t per_rank = (all + ranks - 1) / ranks;
    const uint64_t first = std::min(all, rank * per_rank);
    const uint64_t rows = std::min(all, first + per_rank) - first;
    const uint64_t row_bytes = all == 0 ? 0 : tensor.data.size() / all;
    share.push_back({{tensor.name, tensor.dtype, tensor.shape, first, rows},
                     ByteSpan(tensor.data).subspan(first * row_bytes, rows * row_bytes)});
  }
  return share;
}

// One rank: a program of its own in every way but memory.
class Rank {
 public:
  Rank(board::Board board, RankPlace place, const fs::path& baseline)
      : board_(std::move(board)),
        place_(place),
        publisher_(board_, "run", place, baseline, pool_, NoProgress()) {}

  std::future<RankPublishResult> Start(std::vector<ShareTensor> share, int64_t step,
                                       std::chrono::milliseconds deadline = kPatience) {
    RankPublishOptions options;
    options.step = step;
    options.deadline = deadline;
    return std::async(std::launch::async, [this, options, share = std::move(share)] {
      return publisher_.Publish(share, options);
    });
  }
  uint32_t ranks() const { return place_.ranks; }

 private:
  static constexpr std::chrono::milliseconds kPatience{60'000};
  board::Board board_;
  RankPlace place_;
  ThreadPool pool_{1};
  RankPublisher publisher_;
};

class RanksTest : public testing::MainJob {
 protected:
  void OpenRanks(uint32_t count) {
    ranks_.clear();
    for (uint32_t rank = 0; rank < count; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(OpenBoard(), RankPlace{rank, count},
                                              dir_ / ("rank-" + std::to_string(rank))));
    }
  }

  std::vector<std::future<RankPublishResult>> StartAll(int64_t step) {
    std::vector<std::future<RankPublishResult>> running;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      const auto count = static_cast<uint32_t>(ranks_.size());
      running.push_back(ranks_[rank]->Start(ShareOf(model_, rank, count), step));
    }
    return running;
  }

  std::vector<RankPublishResult> PublishTogether(int64_t step) {
    std::vector<RankPublishResult> results;
    for (auto& running : StartAll(step)) results.push_back(running.get());
    return results;
  }

  void ExpectModel(board::VersionNumber version) {
    Pull("replica", version);
    model_.Write(dir_ / "expected");
    EXPECT_EQ(FilesOf(dir_ / "replica"), FilesOf(dir_ / "expected"));
  }
  board::VersionNumber Head() { return OpenBoard().Head("run"); }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

TEST_F(RanksTest, TogetherTheyPublishWhatOneWould) {
  Publish();
  for (const uint32_t count : {1U, 4U, 3U, 7U}) {
    OpenRanks(count);
    for (int i = 0; i < 2; ++i) {
      model_.Step(300, &random_);
      const board::VersionNumber next = Head() + 1;
      for (const RankPublishResult& result : PublishTogether(static_cast<int64_t>(next))) {
        EXPECT_EQ(result.manifest.version, next);
        // Built when the ranks are new, then following.
        EXPECT_EQ(result.notes.size(), i == 0 ? 1u : 0u);
      }
      ExpectModel(next);
    }
  }
}

TEST_F(RanksTest, ABaselineIsAShareAndItsBorders) {
  model_ = {};
  for (int i = 0; i < 4; ++i) {
    model_.Add("w" + std::to_string(i), tensor::Dtype::kBf16, {6000, 1024}, "model.safetensors",
               &random_);
  }
  Publish();
  OpenRanks(4);
  model_.Step(300, &random_);
  const uint64_t share = model_.tensors.size() * model_.tensors[0].data.size() / 4;
  const uint64_t border = codec::kChunkUnits * 2;
  for (const RankPublishResult& result : PublishTogether(1)) {
    EXPECT_LE(result.baseline_bytes, share + 2 * border * model_.tensors.size() / 2);
    EXPECT_GT(result.uploaded_bytes, 0u);
  }
}

TEST_F(RanksTest, AVersionOfOneProcessComesBetween) {
  Publish();
  OpenRanks(3);
  model_.Step(300, &random_);
  PublishTogether(2);
  model_.Step(300, &random_);
  Publish();  // takes the run over
  model_.Step(300, &random_);
  PublishTogether(4);
  ExpectModel(4);
}

TEST_F(RanksTest, AForkIsPublishedUpon) {
  Publish();
  board::Board board = OpenBoard();
  upkeep::ForkRequest request;
  request.from = {"run", 1};
  request.run = "fork";
  upkeep::Fork(board, request, pool_, NoProgress());
  RankPublisher lead(board, "fork", {0, 1}, dir_ / "lead", pool_, NoProgress());
  model_.Step(300, &random_);
  lead.Publish(ShareOf(model_, 0, 1), RankPublishOptions());
  model_.Write(dir_ / "expected");
  replica::Replica(dir_ / "replica", pool_, NoProgress()).Pull(board, "fork", 2);
  EXPECT_EQ(FilesOf(dir_ / "replica"), FilesOf(dir_ / "expected"));
}

TEST_F(RanksTest, NothingChangedIsAVersion) {
  Publish();
  OpenRanks(3);
  for (const RankPublishResult& result : PublishTogether(2)) {
    EXPECT_EQ(result.manifest.changed, 0u);
    EXPECT_EQ(result.manifest.payload_bytes(), 0u);
  }
  ExpectModel(2);
}

TEST_F(RanksTest, TheFirstVersionComesFromOneProcess) {
  OpenRanks(1);
  ExpectError(
      ErrorCode::kInvalid, [&] { PublishTogether(1); }, "no version yet", "as one process");
}

TEST_F(RanksTest, AnotherModelIsRefusedByAll) {
  Publish();
  OpenRanks(3);
  std::vector<std::future<RankPublishResult>> running;
  // The lead last: a rank that comes when all is over can only wait for the next call.
  for (const uint32_t rank : {2U, 1U, 0U}) {
    std::vector<ShareTensor> share = ShareOf(model_, rank, 3);
    if (rank == 1) share[0].held.shape[1] += 1;
    running.push_back(ranks_[rank]->Start(share, 2));
  }
  for (auto& rank : running) {
    ExpectError(
        ErrorCode::kInvalid, [&] { rank.get(); }, "rank 1", "tensor embed");
  }
  EXPECT_EQ(Head(), 1u);
}

TEST_F(RanksTest, RowsOfNobodyAreRefusedByAll) {
  Publish();
  OpenRanks(2);
  std::vector<ShareTensor> share = ShareOf(model_, 1, 2);
  share.pop_back();
  share.erase(share.begin());
  auto lead = ranks_[0]->Start(ShareOf(model_, 0, 2), 2);
  auto other = ranks_[1]->Start(share, 2);
  for (auto* rank : {&lead, &other}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { rank->get(); }, "tensor embed", "rows 600 to 1199 of 1200");
  }
  EXPECT_EQ(Head(), 1u);
}

TEST_F(RanksTest, ARankThatDoesNotComeIsNamed) {
  Publish();
  OpenRanks(3);
  auto lead = ranks_[0]->Start(ShareOf(model_, 0, 3), 2, std::chrono::milliseconds(300));
  auto other = ranks_[1]->Start(ShareOf(model_, 1, 3), 2);
  ExpectError(
      ErrorCode::kUnavailable, [&] { lead.get(); }, "claim of rank 2");
  ExpectError(
      ErrorCode::kUnavailable, [&] { other.get(); }, "claim of rank 2");
  EXPECT_EQ(Head(), 1u);
}

TEST_F(RanksTest, AnotherStepIsAnotherCall) {
  Publish();
  OpenRanks(2);
  const std::chrono::milliseconds deadline(300);
  auto lead = ranks_[0]->Start(ShareOf(model_, 0, 2), 7, deadline);
  auto other = ranks_[1]->Start(ShareOf(model_, 1, 2), 8, deadline);
  ExpectError(
      ErrorCode::kUnavailable, [&] { other.get(); }, "step 8", "the last one is for step 7");
  ExpectError(ErrorCode::kUnavailable, [&] { lead.get(); });
  EXPECT_EQ(Head(), 1u);
}

TEST_F(RanksTest, DamagedBaselinesAreBuiltAnewByAll) {
  Publish();
  OpenRanks(3);
  model_.Step(300, &random_);
  PublishTogether(2);
  ranks_.clear();
  Damage(dir_ / "rank-1" / "regions");
  OpenRanks(3);
  model_.Step(300, &random_);
  for (const RankPublishResult& result : PublishTogether(3)) {
    EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("built anew")));
  }
  ExpectModel(3);
}

TEST_F(RanksTest, APublishedVersionCanBePublishedUponByAnybody) {
  Publish();
  OpenRanks(2);
  model_.Step(300, &random_);
  PublishTogether(2);
  model_.Step(300, &random_);
  Publish({}, "another-baseline");
  ExpectModel(3);
}

}  // namespace
}  // namespace isthmus::ranks
