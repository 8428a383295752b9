#include "isthmus/gateway/rollout_index.h"

#include <algorithm>
#include <limits>

namespace isthmus::gateway {

uint32_t RolloutIndex::AddSegment(std::shared_ptr<Segment> segment) {
  segments_.emplace(next_, Known{std::move(segment), {}});
  bytes_ += kSegmentBytes;
  return next_++;
}

// An id that comes twice keeps its place in the older segment's list; it is told by the number.
void RolloutIndex::AddLine(uint32_t segment, const LinePlace& place) {
  const auto known = segments_.find(segment);
  if (known == segments_.end() || place.bytes > std::numeric_limits<uint32_t>::max()) return;
  known->second.ids.push_back(place.id_hash);
  places_[place.id_hash] = {place.offset, static_cast<uint32_t>(place.bytes), segment};
  bytes_ += kIdBytes;
}

std::optional<RolloutIndex::Entry> RolloutIndex::Find(std::string_view id) const {
  const uint64_t hash = HashOfId(id);
  const auto found = places_.find(hash);
  if (found == places_.end()) return std::nullopt;
  const Place& place = found->second;
  return Entry{segments_.at(place.segment).segment, {hash, place.offset, place.bytes}};
}

bool RolloutIndex::Knows(const Segment& segment) const {
  return std::ranges::any_of(
      segments_, [&](const auto& entry) { return entry.second.segment.get() == &segment; });
}

std::vector<std::shared_ptr<Segment>> RolloutIndex::Trim() {
  std::vector<std::shared_ptr<Segment>> forgotten;
  while (bytes_ > max_bytes_ && !segments_.empty()) {
    const auto oldest = segments_.begin();
    Forget(oldest->first, oldest->second);
    forgotten.push_back(std::move(oldest->second.segment));
    segments_.erase(oldest);
  }
  return forgotten;
}

void RolloutIndex::Forget(uint32_t number, const Known& known) {
  for (const uint64_t id : known.ids) {
    const auto place = places_.find(id);
    if (place != places_.end() && place->second.segment == number) places_.erase(place);
  }
  bytes_ -= kSegmentBytes + kIdBytes * known.ids.size();
}

}  // namespace isthmus::gateway
