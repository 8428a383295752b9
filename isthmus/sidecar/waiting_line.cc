#include "isthmus/sidecar/waiting_line.h"

#include <algorithm>
#include <limits>

namespace isthmus::sidecar {
namespace {

constexpr uint64_t kMaxKey = std::numeric_limits<uint64_t>::max();

}  // namespace

void WaitingLine::Add(RequestId id, Waiter waiter, const Place& place) {
  const auto exact = waiter.request.constraint.exact_version;
  if (exact) by_exact_.emplace(*exact, id);
  waiting_.emplace(id, std::pair(std::move(waiter), place));
  Index(id, place);
}

void WaitingLine::Move(RequestId id, const Place& place) {
  Place& old = waiting_.at(id).second;
  Unindex(id, old);
  old = place;
  Index(id, place);
}

bool WaitingLine::Remove(RequestId id) {
  const auto at = waiting_.find(id);
  if (at == waiting_.end()) return false;
  const auto& [waiter, place] = at->second;
  const auto exact = waiter.request.constraint.exact_version;
  if (exact) by_exact_.erase({*exact, id});
  Unindex(id, place);
  waiting_.erase(at);
  return true;
}

std::vector<RequestId> WaitingLine::Due(const Situation& situation) const {
  std::vector<RequestId> due;
  const auto add = [this, &due](WaitsFor what, uint64_t from, uint64_t to) {
    const auto begin = by_cause_.lower_bound({what, from, 0});
    const auto end = by_cause_.upper_bound({what, to, kMaxKey});
    for (auto at = begin; at != end; ++at) due.push_back(std::get<2>(*at));
  };
  if (situation.opened) add(WaitsFor::kOpening, 0, 0);
  add(WaitsFor::kVersion, 0, situation.served);
  add(WaitsFor::kLag, situation.lag, kMaxKey);
  const auto lag_ms = std::chrono::ceil<milliseconds>(situation.time_lag);
  add(WaitsFor::kTimeLag, static_cast<uint64_t>(lag_ms.count()), kMaxKey);
  std::ranges::sort(due);
  return due;
}

std::vector<RequestId> WaitingLine::All() const {
  std::vector<RequestId> all;
  all.reserve(waiting_.size());
  for (const auto& [id, waiter] : waiting_) all.push_back(id);
  return all;
}

std::vector<RequestId> WaitingLine::AskingFor(VersionNumber version) const {
  std::vector<RequestId> asking;
  const auto end = by_exact_.upper_bound({version, kMaxKey});
  for (auto at = by_exact_.lower_bound({version, 0}); at != end; ++at) asking.push_back(at->second);
  return asking;
}

std::vector<RequestId> WaitingLine::Expired(MonotonicTime now) const {
  std::vector<RequestId> expired;
  const auto end = by_deadline_.upper_bound({now, kMaxKey});
  for (auto at = by_deadline_.begin(); at != end; ++at) expired.push_back(at->second);
  return expired;
}

std::optional<MonotonicTime> WaitingLine::next_deadline() const {
  if (by_deadline_.empty()) return std::nullopt;
  return by_deadline_.begin()->first;
}

VersionNumber WaitingLine::LowestExactAbove(VersionNumber version) const {
  const auto at = by_exact_.upper_bound({version, kMaxKey});
  return at == by_exact_.end() ? kNoVersion : at->first;
}

void WaitingLine::Index(RequestId id, const Place& place) {
  by_cause_.emplace(place.what, place.key, id);
  by_deadline_.emplace(place.deadline, id);
}

void WaitingLine::Unindex(RequestId id, const Place& place) {
  by_cause_.erase({place.what, place.key, id});
  by_deadline_.erase({place.deadline, id});
}

}  // namespace isthmus::sidecar
