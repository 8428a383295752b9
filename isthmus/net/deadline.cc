#include "isthmus/net/deadline.h"

#include <algorithm>

namespace isthmus::net {

DeadlineList::~DeadlineList() = default;

Milliseconds DeadlineList::TickFor(Milliseconds shortest) {
  return std::clamp(shortest / 8, Milliseconds(5), Milliseconds(1000));
}

void DeadlineList::Schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  timer_.expires_after(tick_);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (error || !self) return;
    self->scheduled_ = false;
    self->Sweep();
  });
}

void DeadlineList::Sweep() {
  const auto now = SteadyClock::now();
  for (Deadline* one = first_; one != nullptr; one = next_swept_) {
    next_swept_ = one->next_;
    if (one->at_ > now) continue;
    one->Disarm();
    const auto expired = one->expired_;  // outlives the deadline, should it be destroyed by it
    expired();
  }
  if (first_ != nullptr) Schedule();
}

void Deadline::Arm(Milliseconds from_now) {
  if (from_now == Milliseconds(0)) return Disarm();
  at_ = DeadlineList::SteadyClock::now() + from_now;
  if (armed_) return;
  armed_ = true;
  previous_ = nullptr;
  next_ = std::exchange(list_->first_, this);
  if (next_ != nullptr) next_->previous_ = this;
  list_->Schedule();
}

void Deadline::Disarm() {
  if (!armed_) return;
  armed_ = false;
  if (list_->next_swept_ == this) list_->next_swept_ = next_;
  (previous_ != nullptr ? previous_->next_ : list_->first_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace isthmus::net
