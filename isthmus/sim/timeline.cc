#include "isthmus/sim/timeline.h"

#include <algorithm>
#include <cmath>

namespace isthmus::sim {
namespace {

constexpr size_t kChildren = 4;

}  // namespace

SimTime FromSeconds(double seconds) {
  const double time = std::ceil(seconds * kSecond);
  if (!(time < static_cast<double>(kLongTime))) return kLongTime;
  return std::max(SimTime{0}, static_cast<SimTime>(time));
}

void Timeline::Add(SimTime at, EventKind kind, uint32_t a, uint32_t b) {
  const Event event = {std::max(at, now_), added_++, kind, a, b};
  size_t hole = heap_.size();
  heap_.push_back(event);
  while (hole > 0) {
    const size_t parent = (hole - 1) / kChildren;
    if (!Before(event, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = event;
}

Event Timeline::Pop() {
  const Event first = heap_.front();
  const Event last = heap_.back();
  heap_.pop_back();
  now_ = first.at;
  if (heap_.empty()) return first;
  size_t hole = 0;
  for (;;) {
    const size_t begin = hole * kChildren + 1;
    if (begin >= heap_.size()) break;
    size_t least = begin;
    const size_t end = std::min(begin + kChildren, heap_.size());
    for (size_t child = begin + 1; child < end; ++child) {
      if (Before(heap_[child], heap_[least])) least = child;
    }
    if (!Before(heap_[least], last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return first;
}

}  // namespace isthmus::sim
