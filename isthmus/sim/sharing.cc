#include "isthmus/sim/sharing.h"

#include <algorithm>
#include <cmath>

namespace isthmus::sim {

void Sharing::SetRate(double rate, SimTime now) {
  AdvanceTo(now);
  rate_ = rate;
}

void Sharing::Add(uint32_t key, double amount, SimTime now) {
  AdvanceTo(now);
  if (jobs_.empty()) each_ = 0;  // small numbers keep their digits
  jobs_.push_back({each_ + amount, each_, key});
  std::ranges::push_heap(jobs_, EndsLater);
}

std::optional<double> Sharing::Remove(uint32_t key, SimTime now) {
  AdvanceTo(now);
  const auto at = std::ranges::find(jobs_, key, &Job::key);
  if (at == jobs_.end()) return std::nullopt;
  const double got = std::min(each_, at->end) - at->begin;
  *at = jobs_.back();
  jobs_.pop_back();
  std::ranges::make_heap(jobs_, EndsLater);
  return got;
}

SimTime Sharing::FirstEnd() const {
  if (jobs_.empty() || rate_ <= 0) return kNever;
  const double left = std::max(0.0, jobs_.front().end - each_);
  return at_ + FromSeconds(left / rate_);
}

std::optional<uint32_t> Sharing::PopEnded(SimTime now) {
  AdvanceTo(now);
  // What a nanosecond brings is as near as the clock can tell.
  if (jobs_.empty() || jobs_.front().end - each_ > 2 * rate_ / kSecond) return std::nullopt;
  const uint32_t key = jobs_.front().key;
  std::ranges::pop_heap(jobs_, EndsLater);
  jobs_.pop_back();
  return key;
}

std::vector<uint32_t> Sharing::Keys() const {
  std::vector<uint32_t> keys;
  keys.reserve(jobs_.size());
  for (const Job& job : jobs_) keys.push_back(job.key);
  return keys;
}

void Sharing::AdvanceTo(SimTime now) {
  each_ += rate_ * ToSeconds(now - at_);
  at_ = now;
}

}  // namespace isthmus::sim
