// The board that a relay serves: a store's blocking calls, made on threads of their own.
#ifndef ISTHMUS_RELAY_ORIGIN_H_
#define ISTHMUS_RELAY_ORIGIN_H_

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/board/board.h"
#include "isthmus/net/task.h"
#include "isthmus/relay/cache_file.h"

namespace isthmus::relay {

struct OriginCounters {
  std::atomic<uint64_t> bytes = 0;     // of objects
  std::atomic<uint64_t> calls = 0;     // to the store
  std::atomic<uint64_t> failures = 0;  // of these
  std::atomic<bool> reachable = true;  // whether the last one was no failure
};

// All but Identify is used on the loop's thread. Failures are kUnavailable (whatever keeps the
// store from answering, and a place that holds no board or another one), kCorrupt (an object is not
// as long as it was), and kNotFound for ranges of an object that is gone. "Missing" means that the
// board is there and the object is not.
class Origin {
 public:
  // Opens a client of the store; may throw. Called when the board is first needed, and again until
  // it can be opened.
  using OpenStore = std::function<std::unique_ptr<store::Store>()>;
  // `board`: the uuid that it must have; empty: any. Opens nothing yet.
  Origin(OpenStore open, std::string board);
  // Waits for calls that are under way.
  ~Origin();
  Origin(const Origin&) = delete;
  Origin& operator=(const Origin&) = delete;

  // Opens the board; blocks. Its uuid, which it must have from then on. Errors as Board::Open.
  std::string Identify();

  net::Task<std::optional<uint64_t>> Size(std::string key);
  net::Task<std::optional<std::string>> Get(std::string key, uint64_t max_bytes);
  net::Task<std::vector<std::string>> List(std::string prefix);
  net::Task<board::VersionNumber> Head(std::string run);
  net::Task<std::string> Range(std::string key, uint64_t offset, uint64_t length);

  // Brings one piece into a file. False: the disk could not take it. `file` must live until then.
  net::Task<bool> FetchPiece(std::string key, CacheFileWriter& file, size_t piece);

  const OriginCounters& counters() const { return counters_; }

 private:
  const board::Board& Open();
  void ExpectBoard(const board::Board& board) const;
  template <typename Work>
  auto Call(Work& work);
  template <typename Work>
  net::Task<std::invoke_result_t<Work&, const board::Board&>> Ask(net::asio::thread_pool& threads,
                                                                  Work work);

  OpenStore open_;
  std::mutex mutex_;
  std::string uuid_;
  std::optional<board::Board> board_;
  OriginCounters counters_;
  // Apart, so that large transfers do not hold up questions. Last: joined first.
  net::asio::thread_pool questions_;
  net::asio::thread_pool transfers_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_ORIGIN_H_
