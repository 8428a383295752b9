#include "isthmus/gateway/recorder.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <stop_token>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/gateway/rollout_index.h"
#include "isthmus/gateway/segment.h"
#include "isthmus/gateway/spool.h"
#include "isthmus/net/offload.h"
#include "isthmus/net/within.h"

namespace isthmus::gateway {
namespace {

using net::Task;

constexpr int kZstdLevel = 3;
constexpr size_t kReadThreads = 2;
constexpr milliseconds kFirstBackoff{1'000};
constexpr milliseconds kLongestBackoff{60'000};
constexpr milliseconds kUntilWoken = std::chrono::hours(24);
constexpr std::chrono::seconds kBetweenRefusalEvents{60};

// What a worker gives back.
struct Uploaded {
  SegmentObject object;
  uint64_t lines = 0;
  std::string ids_error;  // why the list of ids was not written; empty if it was
};

Uploaded UploadAndList(store::Store& store, const Segment& segment) {
  Uploaded uploaded{UploadSegment(store, segment.file, segment.stem, kZstdLevel), 0, ""};
  try {
    WriteIds(segment.ids_file, uploaded.object);
  } catch (const Error& error) {
    uploaded.ids_error = error.what();
  }
  uploaded.lines = uploaded.object.lines.size();
  uploaded.object.lines = {};
  return uploaded;
}

// What cannot be removed now is uploaded again by the next process, and found to be there.
std::string TryRemove(const fs::path& file) {
  try {
    RemoveFile(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Until the upload syncs it again, which waits for other uploads.
void TrySync(const fs::path& file) {
  try {
    File::OpenRead(file).Sync();
    SyncDirectory(file.parent_path());
  } catch (const Error&) {
    return;  // it was uploaded and removed meanwhile, or the upload will say what is wrong
  }
}

}  // namespace

struct Recorder::State : std::enable_shared_from_this<State> {
  State(net::Loop& loop, RecordOptions given, observe::EventLog& log, const std::string& instance,
        const OpenStore& open)
      : options(std::move(given)),
        events(log),
        store(open ? open() : Open()),
        spool(options.spool, instance),
        index(options.max_index_bytes),
        rotation(loop.get_executor()),
        wake(loop.get_executor()),
        end(loop.get_executor()),
        reads(kReadThreads),
        transfers(1),
        syncs(1) {
    Recover();
  }

  std::unique_ptr<store::Store> Open();
  void Recover();
  bool Record(const Rollout& rollout);
  bool Refuse(std::string_view why);
  void Append(std::string_view line, std::string_view id);
  void OpenSegment();
  void Rotate();
  void Enqueue(const std::shared_ptr<Segment>& segment);
  void Trim();
  Task<void> Run();
  Task<void> WorkOff();
  Task<bool> UploadOldest();
  Task<void> OnUploaded(std::shared_ptr<Segment> segment, Uploaded uploaded);
  Task<void> WaitFor(net::SteadyTimer& timer, milliseconds limit);
  Task<std::optional<std::string>> Find(std::string id);
  Task<void> Stop(milliseconds limit);
  void Join();

  RecordOptions options;
  observe::EventLog& events;
  std::stop_source stop;
  std::unique_ptr<store::Store> store;
  Spool spool;
  RolloutIndex index;
  uint32_t current_number = 0;                   // of spool.current(), in the index
  std::deque<std::shared_ptr<Segment>> waiting;  // for their upload
  RecorderCounters counters;
  std::optional<MonotonicTime> last_refusal_event;
  bool running = false;
  bool stopping = false;
  MonotonicTime give_up;  // if stopping
  net::SteadyTimer rotation;
  net::SteadyTimer wake;
  net::SteadyTimer end;  // waited for by Stop
  net::asio::thread_pool reads;
  net::asio::thread_pool transfers;
  net::asio::thread_pool syncs;
};

std::unique_ptr<store::Store> Recorder::State::Open() {
  options.store.stop = stop.get_token();
  return store::OpenStore(options.location, options.store);
}

void Recorder::State::Recover() {
  std::vector<std::string> unreadable;
  for (Spool::Leftover& leftover : spool.Recover(&unreadable)) {
    const uint32_t number = index.AddSegment(leftover.segment);
    for (const LinePlace& line : leftover.lines) index.AddLine(number, line);
    if (leftover.segment->object) continue;
    counters.spool_bytes += leftover.segment->bytes;
    waiting.push_back(leftover.segment);
  }
  if (!waiting.empty()) {
    events.Write("rollouts_recovered",
                 {{"segments", waiting.size()}, {"bytes", counters.spool_bytes}});
  }
  for (const std::string& error : unreadable) {
    events.Write("rollouts_unreadable", {{"error", error}});
  }
  Trim();
}

bool Recorder::State::Record(const Rollout& rollout) {
  if (stopping) return Refuse("the recorder is stopping");
  std::string line;
  try {
    line = ToLine(rollout);
  } catch (const Error& error) {
    return Refuse(error.what());
  }
  line.push_back('\n');
  if (line.size() > options.max_line_bytes) {
    return Refuse(
        fmt::format("a line of {} bytes, {} are allowed", line.size(), options.max_line_bytes));
  }
  if (counters.spool_bytes + line.size() > options.max_spool_bytes) {
    Rotate();
    return Refuse(fmt::format("the spool holds {} of {} bytes", counters.spool_bytes,
                              options.max_spool_bytes));
  }
  try {
    Append(line, rollout.request_id);
  } catch (const Error& error) {
    return Refuse(error.what());
  }
  return true;
}

bool Recorder::State::Refuse(std::string_view why) {
  ++counters.refused;
  const MonotonicTime now = MonotonicNow();
  if (last_refusal_event && now - *last_refusal_event < kBetweenRefusalEvents) return false;
  last_refusal_event = now;
  events.Write("rollouts_refused", {{"reason", why}, {"refused", counters.refused}});
  return false;
}

void Recorder::State::Append(std::string_view line, std::string_view id) {
  if (!spool.current()) OpenSegment();
  const std::shared_ptr<Segment> segment = spool.current();
  uint64_t offset = 0;
  try {
    offset = spool.Append(line, options.sync);
  } catch (const Error&) {
    if (!spool.current()) Enqueue(segment);
    throw;
  }
  counters.spool_bytes += line.size();
  ++counters.recorded;
  index.AddLine(current_number, {HashOfId(id), offset, line.size() - 1});
  Trim();
  if (segment->bytes >= options.rotate_bytes) Rotate();
}

void Recorder::State::OpenSegment() {
  spool.Open(options.sync);
  current_number = index.AddSegment(spool.current());
  rotation.expires_after(options.rotate_interval);
  rotation.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    const std::shared_ptr<State> state = self.lock();
    if (!error && state) state->Rotate();
  });
}

void Recorder::State::Rotate() {
  if (!spool.current()) return;
  const std::shared_ptr<Segment> segment = spool.Close();
  net::asio::post(syncs, [file = segment->file] { TrySync(file); });
  Enqueue(segment);
}

void Recorder::State::Enqueue(const std::shared_ptr<Segment>& segment) {
  rotation.cancel();
  if (segment->bytes == 0) {  // its first line could not be written
    TryRemove(segment->file);
    return;
  }
  waiting.push_back(segment);
  wake.cancel();
}

void Recorder::State::Trim() {
  for (const std::shared_ptr<Segment>& segment : index.Trim()) {
    if (segment->object) TryRemove(segment->ids_file);
  }
}

Task<void> Recorder::State::WaitFor(net::SteadyTimer& timer, milliseconds limit) {
  timer.expires_after(limit);
  boost::system::error_code woken;
  co_await timer.async_wait(net::asio::redirect_error(net::kAwait, woken));
}

Task<void> Recorder::State::Run() {
  running = true;
  std::exception_ptr failure;
  try {
    co_await WorkOff();
  } catch (...) {
    failure = std::current_exception();
  }
  running = false;
  end.cancel();
  if (failure) std::rethrow_exception(failure);
}

// A segment that fails goes behind the others: what is wrong may be its file.
Task<void> Recorder::State::WorkOff() {
  milliseconds backoff = kFirstBackoff;
  while (true) {
    if (stopping && (waiting.empty() || MonotonicNow() >= give_up)) co_return;
    if (waiting.empty()) {
      co_await WaitFor(wake, kUntilWoken);
      continue;
    }
    const bool uploaded = co_await UploadOldest();
    if (uploaded) {
      backoff = kFirstBackoff;
      continue;
    }
    std::rotate(waiting.begin(), waiting.begin() + 1, waiting.end());
    // A stop wakes it, and then tries again at shorter distances.
    const MonotonicTime again = MonotonicNow() + (stopping ? kFirstBackoff : backoff);
    const bool was_stopping = stopping;
    while (MonotonicNow() < again && stopping == was_stopping) {
      const auto left = std::chrono::ceil<milliseconds>(again - MonotonicNow());
      co_await WaitFor(wake, left);
    }
    backoff = std::min(backoff * 2, kLongestBackoff);
  }
}

Task<bool> Recorder::State::UploadOldest() {
  const std::shared_ptr<Segment> segment = waiting.front();
  std::optional<Uploaded> uploaded;
  std::string failure;
  try {
    auto work = [this, segment] { return UploadAndList(*store, *segment); };
    uploaded = co_await net::Offload(transfers, std::move(work));
  } catch (const Error& error) {
    failure = error.what();
  } catch (const std::bad_alloc&) {
    failure = "no memory";
  }
  if (!uploaded) {
    ++counters.upload_failures;
    events.Write("rollouts_upload_failed", {{"segment", segment->stem}, {"error", failure}});
    co_return false;
  }
  co_await OnUploaded(segment, std::move(*uploaded));
  co_return true;
}

// The file goes last: until the object is known, lines are looked for in the file.
Task<void> Recorder::State::OnUploaded(std::shared_ptr<Segment> segment, Uploaded uploaded) {
  segment->object = std::move(uploaded.object);
  std::erase(waiting, segment);
  ++counters.uploaded_segments;
  counters.uploaded_lines += uploaded.lines;
  counters.uploaded_bytes += segment->object->object_bytes;
  events.Write("rollouts_uploaded", {{"key", segment->object->key},
                                     {"lines", uploaded.lines},
                                     {"bytes", segment->object->object_bytes}});
  if (!uploaded.ids_error.empty()) {
    events.Write("rollouts_not_listed", {{"error", uploaded.ids_error}});
  }
  if (!index.Knows(*segment)) TryRemove(segment->ids_file);
  auto work = [file = segment->file] { return TryRemove(file); };
  const std::string error = co_await net::Offload(transfers, std::move(work));
  if (!error.empty()) events.Write("rollouts_not_removed", {{"error", error}});
  counters.spool_bytes -= segment->bytes;
}

Task<std::optional<std::string>> Recorder::State::Find(std::string id) {
  const std::optional<RolloutIndex::Entry> entry = index.Find(id);
  std::optional<std::string> line;
  if (!entry) co_return line;
  const std::shared_ptr<Segment> segment = entry->segment;
  if (!segment->object) {
    auto work = [segment, place = entry->place, id] {
      return ReadSpooledLine(segment->file, place, id);
    };
    line = co_await net::Offload(reads, std::move(work));
  }
  // While it was looked for the file may have become an object.
  if (line || !segment->object) co_return line;
  auto work = [this, segment, place = entry->place, id] {
    return ReadStoredLine(*store, *segment->object, place, id);
  };
  line = co_await net::Offload(reads, std::move(work));
  co_return line;
}

Task<void> Recorder::State::Stop(milliseconds limit) {
  Rotate();
  stopping = true;
  give_up = MonotonicNow() + limit;
  wake.cancel();
  while (running && MonotonicNow() < give_up) {
    co_await WaitFor(end, std::chrono::ceil<milliseconds>(give_up - MonotonicNow()));
  }
  stop.request_stop();
  wake.cancel();
  while (running) co_await WaitFor(end, kUntilWoken);
}

void Recorder::State::Join() {
  stop.request_stop();
  syncs.join();
  reads.join();
  transfers.join();
}

Recorder::Recorder(net::Loop& loop, RecordOptions options, observe::EventLog& events,
                   const std::string& instance)
    : Recorder(loop, std::move(options), events, instance, {}) {}

Recorder::Recorder(net::Loop& loop, RecordOptions options, observe::EventLog& events,
                   const std::string& instance, const OpenStore& open)
    : state_(std::make_shared<State>(loop, std::move(options), events, instance, open)) {}

Recorder::~Recorder() { state_->Join(); }

bool Recorder::Record(const Rollout& rollout) { return state_->Record(rollout); }

Task<std::optional<std::string>> Recorder::Find(std::string id) {
  const std::shared_ptr<State> state = state_;
  std::optional<Error> failure;
  std::optional<std::string> line;
  try {
    line = co_await state->Find(std::move(id));
  } catch (const Error& error) {
    failure.emplace(ErrorCode::kUnavailable, error.what());
  }
  if (failure) throw Error(*failure);
  co_return line;
}

Task<void> Recorder::Run() {
  const std::shared_ptr<State> state = state_;
  co_await state->Run();
}

Task<void> Recorder::Stop(milliseconds limit) {
  const std::shared_ptr<State> state = state_;
  co_await state->Stop(limit);
}

void Recorder::Rotate() { state_->Rotate(); }

RecorderCounters Recorder::counters() const {
  RecorderCounters counters = state_->counters;
  counters.spool_segments = state_->waiting.size() + (state_->spool.current() ? 1 : 0);
  counters.indexed = state_->index.ids();
  return counters;
}

}  // namespace isthmus::gateway
