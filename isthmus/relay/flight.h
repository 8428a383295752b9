// One object on its way from the origin into the cache, and who reads it meanwhile.
#ifndef ISTHMUS_RELAY_FLIGHT_H_
#define ISTHMUS_RELAY_FLIGHT_H_

#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/relay/disk_cache.h"
#include "isthmus/relay/errands.h"
#include "isthmus/relay/origin.h"

namespace isthmus::relay {

// Fetches pieces, several at a time: first those that somebody waits for, then from front to back.
// Used on its loop's thread.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  // How many pieces are fetched at a time: a distant store needs several round trips under way.
  static constexpr size_t kAhead = 4;

  // `disk`: threads for what blocks on the local disk.
  Flight(Origin& origin, net::asio::thread_pool& disk, std::string key, uint64_t object_bytes,
         std::shared_ptr<Deposit> deposit);

  // Begins, as errands. `landed` is called once, when nothing more happens: whether the object was
  // fetched, is as long as the origin says, and its file is complete.
  void Begin(Errands& errands, std::function<void(bool complete)> landed);

  // Waits until byte `offset` is in the file, and how many are from there on; 0: they will never
  // be, for the disk is full, and what is missing must come from the origin. Throws what the flight
  // failed with.
  net::Task<uint64_t> WaitFor(uint64_t offset);
  // Null before WaitFor has given a number.
  std::shared_ptr<const File> file() const { return deposit_->writer().file(); }

  bool failed() const { return failure_.has_value(); }
  uint64_t object_bytes() const { return object_bytes_; }
  Deposit& deposit() { return *deposit_; }

  // Fails it as soon as what is under way has ended.
  void Stop();

 private:
  static net::Task<void> Run(std::shared_ptr<Flight> self, Errands& errands,
                             std::function<void(bool)> landed);
  static net::Task<void> FetchPieces(std::shared_ptr<Flight> self);
  net::Task<void> TakeRoom();
  net::Task<void> Complete();
  std::optional<size_t> NextPiece();
  uint64_t BytesFrom(uint64_t offset) const;
  void Fail(const Error& error);
  bool over() const { return failure_.has_value() || disk_full_; }

  Origin& origin_;
  net::asio::thread_pool& disk_;
  std::string key_;
  uint64_t object_bytes_;
  std::shared_ptr<Deposit> deposit_;
  std::deque<size_t> wanted_;  // pieces, in the order in which they were asked for
  size_t next_ = 0;            // all before were begun
  size_t lanes_ = 0;
  std::vector<bool> begun_, fetched_;
  bool disk_full_ = false, complete_ = false;
  std::optional<Error> failure_;
  net::Bell changed_;
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_FLIGHT_H_
