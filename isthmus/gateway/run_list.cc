#include <algorithm>

#include "isthmus/gateway/pool_state.h"

namespace isthmus::gateway {

std::optional<uint32_t> RunList::Find(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) return std::nullopt;
  return found->second;
}

uint32_t RunList::Join(std::string_view name) {
  if (const auto found = Find(name)) {
    ++islands_[*found];
    return *found;
  }
  uint32_t run = static_cast<uint32_t>(views_.size());
  if (free_.empty()) {
    views_.emplace_back();
    islands_.push_back(0);
  } else {
    run = free_.back();
    free_.pop_back();
  }
  views_[run] = {std::string(name), kNoVersion};
  islands_[run] = 1;
  places_.emplace(name, run);
  return run;
}

void RunList::Leave(uint32_t run) {
  if (--islands_[run] > 0) return;
  places_.erase(views_[run].name);
  views_[run] = {};
  free_.push_back(run);
}

void RunList::Witness(uint32_t run, VersionNumber before, VersionNumber now) {
  VersionNumber& newest = views_[run].newest;
  if (now > newest) {
    newest = now;
    ++changes_;
  } else if (now < before && before == newest) {
    dirty_ = true;
  }
}

void RunList::Recount(const std::vector<VersionNumber>& newest) {
  dirty_ = false;
  for (size_t run = 0; run < views_.size(); ++run) {
    if (views_[run].newest == newest[run]) continue;
    views_[run].newest = newest[run];
    ++changes_;
  }
}

}  // namespace isthmus::gateway
