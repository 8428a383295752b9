#include "isthmus/sidecar/sessions.h"

#include <algorithm>
#include <iterator>

namespace isthmus::sidecar {

using board::kNoVersion;
using board::VersionNumber;

VersionNumber Sessions::PinOf(std::string_view session) const {
  const auto at = sessions_.find(session);
  return at == sessions_.end() ? kNoVersion : at->second.version;
}

bool Sessions::HasRoom(std::string_view session, MonotonicTime now) const {
  return sessions_.size() < limits_.max_sessions || sessions_.contains(session) ||
         (!idle_.empty() && idle_.begin()->first <= now);
}

void Sessions::Begin(const std::string& session, VersionNumber version, MonotonicTime now) {
  auto at = sessions_.find(session);
  if (at == sessions_.end()) {
    if (sessions_.size() == limits_.max_sessions) {
      const auto ended = sessions_.find(idle_.begin()->second);
      Unindex(*ended);
      sessions_.erase(ended);
    }
    at = sessions_.emplace(session, Session{version, now + limits_.longest, now, 0}).first;
    Index(*at);
  }
  Unindex(*at);
  ++at->second.turns_in_flight;
  Renew(*at, now);
}

void Sessions::End(std::string_view session, MonotonicTime now) {
  Entry& entry = *sessions_.find(session);
  Unindex(entry);
  --entry.second.turns_in_flight;
  Renew(entry, now);
}

MonotonicTime Sessions::HeldUntil(VersionNumber version) const {
  const auto behind = by_version_.lower_bound({version + 1, MonotonicTime::min(), ""});
  if (behind == by_version_.begin()) return MonotonicTime::min();
  const auto& [last_version, lease_end, name] = *std::prev(behind);
  return last_version == version ? lease_end : MonotonicTime::min();
}

// `entry` is in no index.
void Sessions::Renew(Entry& entry, MonotonicTime now) {
  Session& session = entry.second;
  session.lease_end =
      session.turns_in_flight > 0 ? session.bound : std::min(now + limits_.lease, session.bound);
  Index(entry);
}

void Sessions::Index(const Entry& entry) {
  const auto& [name, session] = entry;
  by_version_.emplace(session.version, session.lease_end, name);
  if (session.turns_in_flight == 0) idle_.emplace(session.lease_end, name);
}

void Sessions::Unindex(const Entry& entry) {
  const auto& [name, session] = entry;
  by_version_.erase({session.version, session.lease_end, name});
  if (session.turns_in_flight == 0) idle_.erase({session.lease_end, name});
}

}  // namespace isthmus::sidecar
