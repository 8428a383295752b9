// The rollouts log: docs/rollouts.md. Lines go to a spool on the local disk at once, and from there
// to a store, compressed, by threads of the recorder's own.
#ifndef ISTHMUS_GATEWAY_RECORDER_H_
#define ISTHMUS_GATEWAY_RECORDER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "isthmus/base/file.h"
#include "isthmus/gateway/rollout.h"
#include "isthmus/net/task.h"
#include "isthmus/observe/event_log.h"
#include "isthmus/store/store.h"

namespace isthmus::gateway {

using std::chrono::milliseconds;

struct RecordOptions {
  std::string location;       // as store::OpenStore takes it
  store::StoreOptions store;  // its `stop` is the recorder's own
  fs::path spool;             // a directory, created if it is missing; one process at a time
  bool sync = false;          // each line; blocks the loop for as long
  uint64_t rotate_bytes = uint64_t{64} << 20;
  milliseconds rotate_interval{60'000};
  uint64_t max_spool_bytes = uint64_t{4} << 30;
  uint64_t max_line_bytes = uint64_t{256} << 20;  // longer lines are refused
  uint64_t max_index_bytes = uint64_t{64} << 20;  // memory for ids that can be asked for
};

struct RecorderCounters {
  uint64_t recorded = 0;
  uint64_t refused = 0;  // not recorded: the spool or the disk is full, or a line too long
  uint64_t uploaded_segments = 0;
  uint64_t uploaded_lines = 0;
  uint64_t uploaded_bytes = 0;  // compressed
  uint64_t upload_failures = 0;
  uint64_t spool_bytes = 0;  // now
  uint64_t spool_segments = 0;
  uint64_t indexed = 0;  // ids that can be asked for
};

// Used on its loop's thread only.
class Recorder {
 public:
  using OpenStore = std::function<std::unique_ptr<store::Store>()>;

  // Locks the spool, cuts off what a crash left behind a last whole line, and reads the ids that
  // are there: blocks. `instance` names this process among all gateways (1 to 64 of
  // [A-Za-z0-9._-], not beginning with '.'); `events` must outlive the recorder. kConflict if
  // another process has the spool, kInvalid for a location of no known kind. The store is not asked
  // for anything yet.
  Recorder(net::Loop& loop, RecordOptions options, observe::EventLog& events,
           const std::string& instance);
  // With a store of one's own; location and store of the options are not looked at.
  Recorder(net::Loop& loop, RecordOptions options, observe::EventLog& events,
           const std::string& instance, const OpenStore& open);
  // Waits for the store's calls that are under way; they are given up within about a second. Run
  // must have ended, or the loop must not run again; the same for each Find.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // On return the rollout is in the spool, safe from the end of this process. Never waits for the
  // store. False: it is refused, and counted; the first of each minute is an event.
  bool Record(const Rollout& rollout);

  // The newest line of this id without its end, if it is known and still there. Looked up in the
  // spool, or with one ranged read in the store: kUnavailable if that gives no answer.
  net::Task<std::optional<std::string>> Find(std::string id);

  // Rotates and uploads until Stop. To be run once, from the beginning.
  net::Task<void> Run();
  // Rotates, and goes on uploading for at most so long; what is left stays in the spool for the
  // next process. Record refuses from here on. Returns when Run has ended.
  net::Task<void> Stop(milliseconds limit);

  // Uploads what is in the spool now, without waiting for size or age.
  void Rotate();

  RecorderCounters counters() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_RECORDER_H_
