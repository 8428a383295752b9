#include "isthmus/gateway/pins.h"

namespace isthmus::gateway {
namespace {

// Neither name has a '/'.
std::string NameOf(std::string_view run, std::string_view session) {
  std::string name;
  name.reserve(run.size() + 1 + session.size());
  return name.append(run).append("/").append(session);
}

}  // namespace

VersionNumber Pins::Find(std::string_view run, std::string_view session) {
  const auto found = by_name_.find(NameOf(run, session));
  if (found == by_name_.end()) return kNoVersion;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->version;
}

void Pins::Keep(std::string_view run, std::string_view session, VersionNumber version) {
  if (Find(run, session) != kNoVersion) return;
  recent_.push_front({NameOf(run, session), version});
  by_name_.emplace(recent_.front().name, recent_.begin());
  if (recent_.size() <= max_) return;
  by_name_.erase(recent_.back().name);
  recent_.pop_back();
}

}  // namespace isthmus::gateway
