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
      begun_(deposit_->writer().pieces()),
      fetched_(begun_.size()) {}

void Flight::Begin(Errands& errands, std::function<void(bool)> landed) {
  errands.Begin(Run(shared_from_this(), errands, std::move(landed)));
}

Task<void> Flight::Run(std::shared_ptr<Flight> self, Errands& errands,
                       std::function<void(bool)> landed) {
  try {
    co_await self->TakeRoom();
    self->lanes_ = std::min(kAhead, self->fetched_.size());
    for (size_t lane = self->lanes_; lane > 0; --lane) errands.Begin(FetchPieces(self));
    while (self->lanes_ > 0) co_await self->changed_.Wait(net::kUntilRung);
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
}

std::optional<size_t> Flight::NextPiece() {
  if (over()) return std::nullopt;
  while (next_ < begun_.size() && begun_[next_]) ++next_;
  size_t piece = next_;
  while (!wanted_.empty()) {
    const size_t first = wanted_.front();
    wanted_.pop_front();
    if (begun_[first]) continue;
    piece = first;
    break;
  }
  if (piece == begun_.size()) return std::nullopt;
  begun_[piece] = true;
  return piece;
}

Task<void> Flight::FetchPieces(std::shared_ptr<Flight> self) {
  try {
    while (const std::optional<size_t> piece = self->NextPiece()) {
      CacheFileWriter& file = self->deposit_->writer();
      const bool stored = co_await self->origin_.FetchPiece(self->key_, file, *piece);
      self->fetched_[*piece] = stored;
      if (!stored) self->disk_full_ = true;
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

uint64_t Flight::BytesFrom(uint64_t offset) const {
  const size_t first = static_cast<size_t>(offset / kPieceBytes);
  size_t end = first;
  while (end < fetched_.size() && fetched_[end]) ++end;
  return end == first ? 0 : std::min(object_bytes_, end * kPieceBytes) - offset;
}

Task<uint64_t> Flight::WaitFor(uint64_t offset) {
  const auto self = shared_from_this();
  bool asked = false;
  for (;;) {
    const uint64_t bytes = BytesFrom(offset);
    if (bytes > 0 || disk_full_) co_return bytes;
    if (failure_) throw Error(*failure_);
    const size_t piece = static_cast<size_t>(offset / kPieceBytes);
    if (!std::exchange(asked, true) && !begun_[piece]) wanted_.push_back(piece);
    co_await changed_.Wait(net::kUntilRung);
  }
}

}  // namespace isthmus::relay
