// Sessions that pinned a version, and how long their leases live. Pure; not thread-safe; at most
// `max_sessions`.
//
// A session is pinned to the version of its first pinned turn, for good: it is never moved to
// another one. Its lease says how long its island should go on serving that version. A lease
// without a turn in flight ends `lease` after its last turn; all end at most `longest` after the
// session's first. What is left when the lease has ended is a memory of the pin, given up only to
// make room: so a late turn is told that its version is gone, instead of being pinned to a new one
// without a word.
#ifndef ISTHMUS_SIDECAR_SESSIONS_H_
#define ISTHMUS_SIDECAR_SESSIONS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "isthmus/base/clock.h"
#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

struct SessionLimits {
  size_t max_sessions = 100'000;  // about 30 MB
  // A tool call between two turns takes seconds, a build or a test suite minutes.
  std::chrono::milliseconds lease = std::chrono::minutes(2);
  // An agentic episode takes some ten minutes.
  std::chrono::milliseconds longest = std::chrono::minutes(30);
};

// Every operation is O(log n).
class Sessions {
 public:
  explicit Sessions(const SessionLimits& limits) : limits_(limits) {}

  // The version that the session is pinned to; kNoVersion if it is not known.
  board::VersionNumber PinOf(std::string_view session) const;
  // Whether Begin would find room: the session is known, or there is a free place, or one whose
  // lease has ended.
  bool HasRoom(std::string_view session, MonotonicTime now) const;
  // A pinned turn is admitted at `version`, which must be PinOf(session) or that kNoVersion.
  // HasRoom must hold.
  void Begin(const std::string& session, board::VersionNumber version, MonotonicTime now);
  // A turn that began has ended.
  void End(std::string_view session, MonotonicTime now);

  // When the last of the leases on `version` ends; MonotonicTime::min() if there is none. May be in
  // the past.
  MonotonicTime HeldUntil(board::VersionNumber version) const;

  size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    board::VersionNumber version = board::kNoVersion;
    MonotonicTime bound;  // no lease goes beyond
    MonotonicTime lease_end;
    size_t turns_in_flight = 0;
  };
  using Entry = std::pair<const std::string, Session>;

  void Renew(Entry& entry, MonotonicTime now);
  void Index(const Entry& entry);
  void Unindex(const Entry& entry);

  SessionLimits limits_;
  std::map<std::string, Session, std::less<>> sessions_;
  // The names are those of sessions_.
  std::set<std::tuple<board::VersionNumber, MonotonicTime, std::string_view>> by_version_;
  std::set<std::pair<MonotonicTime, std::string_view>> idle_;  // without a turn in flight
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_SESSIONS_H_
