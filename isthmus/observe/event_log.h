// What happened, as JSON lines: for people who look back and programs that follow.
#ifndef ISTHMUS_OBSERVE_EVENT_LOG_H_
#define ISTHMUS_OBSERVE_EVENT_LOG_H_

#include <boost/json/object.hpp>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/base/file.h"

namespace isthmus::observe {

// One object a line: "time" (RFC 3339, UTC), "event", then the event's own fields, whose names
// carry units. Not thread-safe.
class EventLog {
 public:
  // The events that are kept in memory.
  static constexpr size_t kKept = 256;

  // Only in memory.
  EventLog() = default;
  // Appends to a file too, which is created if it is missing; "-" is standard error, empty is
  // none. Throws if it cannot be opened.
  explicit EventLog(const std::string& file);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  // An event that cannot be written is kept in memory only: what happens is never stopped by a full
  // disk. `lost()` counts them.
  void Write(std::string_view event, const boost::json::object& fields = {});
  uint64_t lost() const { return lost_; }

  // The newest kKept lines, oldest first, without line ends.
  const std::deque<std::string>& recent() const { return recent_; }
  // The same as a JSON list, with a line end: what GET /events answers.
  std::string RecentJson() const;

 private:
  int fd_ = -1;
  bool owned_ = false;
  uint64_t lost_ = 0;
  std::deque<std::string> recent_;
};

}  // namespace isthmus::observe

#endif  // ISTHMUS_OBSERVE_EVENT_LOG_H_
