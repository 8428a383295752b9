#include "isthmus/sidecar/stager.h"

#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "isthmus/base/clock.h"
#include "isthmus/net/offload.h"
#include "isthmus/net/within.h"

namespace isthmus::sidecar {

std::string LayoutOf(const tensor::VersionTable& table) {
  std::string text;
  for (const auto& tensor : table.tensors) {
    text += fmt::format("{} {} {}\n", tensor.name, DtypeName(tensor.dtype),
                        fmt::join(tensor.shape, ","));
  }
  for (const auto& file : table.files) {
    if (file.path == "config.json") text += FormatSha256(file.sha256);
  }
  return FormatSha256(Sha256(AsBytes(text)));
}

// The time that each kind of work took, by the labels of its progress.
class Stager::PhaseClock final : public Progress {
 public:
  void Begin(std::string_view label, uint64_t /*total_bytes*/) override {
    label_ = label;
    begun_ = SystemClock().Monotonic();
  }
  void Advance(uint64_t /*bytes*/) override {}
  void End() override { milliseconds_[label_] += SecondsSince(begun_) * 1000; }

  void Reset() { milliseconds_.clear(); }
  double Of(const std::string& label) const {
    const auto found = milliseconds_.find(label);
    return found == milliseconds_.end() ? 0 : found->second;
  }

 private:
  std::string label_;
  MonotonicTime begun_;
  std::map<std::string, double> milliseconds_;
};

Stager::Stager(net::Loop& loop, Options options)
    : loop_(loop),
      options_(std::move(options)),
      pool_(options_.threads),
      clock_(std::make_unique<PhaseClock>()) {
  options_.store.stop = stop_.get_token();
  replica_ = std::make_unique<replica::Replica>(options_.replica, pool_, *clock_);
  if (replica_->state()) held_ = replica_->state()->version;
}

Stager::~Stager() {
  log_worker_.join();
  stage_worker_.join();
}

const board::Board& Stager::OpenBoard() {
  const std::lock_guard lock(board_mutex_);
  if (!board_) {
    board_.emplace(board::Board::Open(store::OpenStore(options_.board, options_.store),
                                      {std::nullopt, options_.trusted}));
  }
  return *board_;
}

// One reading, which may outlast those who wait for it.
struct Stager::LogJob {
  explicit LogJob(net::Loop& loop) : timer(loop.get_executor()) {}
  std::optional<LogReading> reading;
  std::optional<Error> error;
  net::SteadyTimer timer;  // of whoever waits
};

net::Task<LogReading> Stager::ReadLog() {
  if (!log_job_) {
    log_job_ = std::make_shared<LogJob>(loop_);
    net::asio::post(log_worker_, [this, job = log_job_] {
      try {
        const board::Board& board = OpenBoard();
        job->reading = LogReading{board.Head(options_.run), board.Revoked(options_.run)};
      } catch (const Error& error) {
        job->error = error;
      } catch (const std::exception& error) {
        job->error.emplace(ErrorCode::kUnavailable, error.what());
      }
      net::asio::post(loop_, [this, job] {
        log_job_.reset();
        job->timer.cancel();
      });
    });
  }
  const std::shared_ptr<LogJob> job = log_job_;
  job->timer.expires_after(kLogLimit);
  try {
    co_await job->timer.async_wait(net::kAwait);
  } catch (const boost::system::system_error& error) {
    if (job == log_job_ || error.code() != net::asio::error::operation_aborted) throw;
  }
  if (job == log_job_) {
    Throw(ErrorCode::kUnavailable, "read the log of run {} on {}: no answer within {} s",
          options_.run, options_.board, kLogLimit.count());
  }
  if (job->error) throw Error(*job->error);
  co_return std::move(*job->reading);
}

Staged Stager::Run(std::optional<board::VersionNumber> version) {
  const MonotonicTime start = SystemClock().Monotonic();
  clock_->Reset();
  Staged staged;
  if (version) {
    staged.pull = replica_->Pull(OpenBoard(), options_.run, *version);
  } else {
    replica_->Verify();
    staged.pull.from = staged.pull.to = replica_->state()->version;
  }
  staged.digest = replica_->state()->digest;
  staged.layout = LayoutOf(replica_->table());
  staged.fetch_ms = clock_->Of("fetch");
  staged.apply_ms = clock_->Of("apply");
  staged.verify_ms = clock_->Of("verify") + clock_->Of("hash");
  staged.total_ms = SecondsSince(start) * 1000;
  return staged;
}

net::Task<Staged> Stager::Stage(board::VersionNumber version) {
  return Work([this, version] { return Run(version); });
}

net::Task<Staged> Stager::StageHeld() {
  return Work([this] { return Run(std::nullopt); });
}

void Stager::Note(std::vector<replica::VersionFacts> read) {
  for (replica::VersionFacts& facts : read) {
    const board::VersionNumber version = facts.version;
    versions_.insert_or_assign(version, std::move(facts));
  }
  while (versions_.size() > kMaxVersions) versions_.erase(versions_.begin());
}

// A stage that only verifies what is there changes nothing.
void Stager::NoteChanges(const replica::PullResult& pull) {
  if (pull.from == pull.to && !changes_.empty()) return;
  const bool goes_on = changes_.empty() || changes_.back().to == pull.from;
  if (!goes_on || !pull.changes) changes_.clear();
  if (pull.changes) changes_.push_back({*pull.changes, pull.from, pull.to});
}

// In its turn: a stage may be writing one.
void Stager::ForgetChanges() {
  if (changes_.empty()) return;
  changes_.clear();
  net::asio::post(stage_worker_, [this] {
    try {
      replica_->DropChanges();
    } catch (const Error&) {  // they take room until the next time, or the next start
    }
  });
}

// Until the work has ended nobody may load what lies there; after it, what the replica says.
net::Task<Staged> Stager::Work(std::function<Staged()> work) {
  held_ = board::kNoVersion;
  struct Outcome {
    std::optional<Staged> staged;
    std::optional<Error> error;
    board::VersionNumber held = board::kNoVersion;
  };
  auto guarded = [this, keep = keeps_changes_, work = std::move(work)] {
    Outcome result;
    try {
      replica_->KeepChanges(keep);
      result.staged = work();
    } catch (const Error& error) {
      result.error = error;
    } catch (const std::exception& error) {
      result.error.emplace(ErrorCode::kUnavailable, error.what());
    }
    if (replica_->state()) result.held = replica_->state()->version;
    return result;
  };
  Outcome outcome = co_await net::Offload(stage_worker_, std::move(guarded));
  held_ = outcome.held;
  if (outcome.error) throw Error(*outcome.error);
  Note(std::exchange(outcome.staged->pull.read, {}));
  NoteChanges(outcome.staged->pull);
  co_return std::move(*outcome.staged);
}

}  // namespace isthmus::sidecar
