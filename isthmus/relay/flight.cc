#include "isthmus/relay/flight.h"

#include <algorithm>

#include "isthmus/net/offload.h"

namespace isthmus::relay {

using net::Task;

Flight::Flight(Origin& origin, net::asio::thread_pool& disk, std::string key, uint64_t object_bytes,
               std::shared_ptr<Deposit> deposit)
    : origin_(origin),
      disk_(disk),
      key_(std::move(key)),
      object_bytes_(object_bytes),
      deposit_(std::move(deposit)),
      fetched_(deposit_->writer().pieces()) {}

void Flight::Begin(Errands& errands, std::function<void(bool)> landed) {
  errands.Begin(Run(shared_from_this(), errands, std::move(landed)));
}

Task<void> Flight::Run(std::shared_ptr<Flight> self, Errands& errands,
                       std::function<void(bool)> landed) {
  try {
    co_await self->TakeRoom();
    self->lanes_ = std::min(kAhead, self->fetched_.size());
    for (size_t lane = self->lanes_; lane > 0; --lane) errands.Begin(FetchPieces(self));
    while (self->lanes_ > 0) co_await self->changed_.Wait(kUntilRung);
    if (!self->over()) co_await self->Complete();
  } catch (const Error& error) {
    self->Fail(error);
  } catch (const std::exception& error) {
    self->Fail(Error(ErrorCode::kInternal, error.what()));
  }
  self->changed_.Ring();
  landed(self->complete_);
}

Task<void> Flight::TakeRoom() {
  auto work = [deposit = deposit_.get()] {
    try {
      deposit->Begin();
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  disk_full_ = !co_await net::Offload(disk_, std::move(work));
  if (disk_full_) next_ = fetched_.size();
}

Task<void> Flight::FetchPieces(std::shared_ptr<Flight> self) {
  try {
    while (self->next_ < self->fetched_.size() && !self->over()) {
      const size_t piece = self->next_++;
      const bool stored =
          co_await self->origin_.FetchPiece(self->key_, self->deposit_->writer(), piece);
      stored ? self->OnPiece(piece) : void(self->disk_full_ = true);
      self->changed_.Ring();
    }
  } catch (const Error& error) {
    self->Fail(error);
  } catch (const std::exception& error) {
    self->Fail(Error(ErrorCode::kInternal, error.what()));
  }
  --self->lanes_;
  self->changed_.Ring();
}

void Flight::OnPiece(size_t piece) {
  fetched_[piece] = true;
  while (whole_ < fetched_.size() && fetched_[whole_]) ++whole_;
}

// Asked again: an object that grew or shrank meanwhile is none that may be kept.
Task<void> Flight::Complete() {
  const std::optional<uint64_t> size = co_await origin_.Size(key_);
  if (size != object_bytes_) {
    Throw(ErrorCode::kCorrupt, "fetch {}: {} bytes at the end, {} at the beginning", key_,
          size.value_or(0), object_bytes_);
  }
  auto work = [deposit = deposit_.get()] {
    try {
      deposit->Seal();
    } catch (const Error&) {
      return false;  // readers have all they need
    }
    return true;
  };
  complete_ = co_await net::Offload(disk_, std::move(work));
}

void Flight::Fail(const Error& error) {
  if (!failure_) failure_ = error;
  changed_.Ring();
}

void Flight::Stop() {
  Fail(Error(ErrorCode::kUnavailable, "fetch " + key_ + ": the relay is being stopped"));
}

Task<uint64_t> Flight::WaitFor(uint64_t offset) {
  const auto self = shared_from_this();
  for (;;) {
    const uint64_t whole_bytes = std::min(object_bytes_, whole_ * kPieceBytes);
    if (offset < whole_bytes) co_return whole_bytes - offset;
    if (disk_full_) co_return 0;
    if (failure_) throw Error(*failure_);
    co_await changed_.Wait(kUntilRung);
  }
}

}  // namespace isthmus::relay
