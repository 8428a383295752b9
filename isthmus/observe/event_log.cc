#include "isthmus/observe/event_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <cerrno>

#include "isthmus/base/clock.h"
#include "isthmus/base/error.h"

namespace isthmus::observe {
namespace {

// In one call, so that lines of several writers to one file do not mix.
bool WriteLine(int fd, const std::string& line) {
  ssize_t written = -1;
  do {
    written = ::write(fd, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  return written == static_cast<ssize_t>(line.size());
}

}  // namespace

EventLog::EventLog(const std::string& file) {
  if (file.empty()) return;
  if (file == "-") {
    fd_ = STDERR_FILENO;
    return;
  }
  constexpr mode_t kMode = 0666;
  fd_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kMode);  // NOLINT(*-vararg)
  if (fd_ < 0) ThrowErrno(errno, "open event log", file);
  owned_ = true;
}

EventLog::~EventLog() {
  if (owned_) ::close(fd_);
}

void EventLog::Write(std::string_view event, const boost::json::object& fields) {
  boost::json::object object = {{"time", FormatTime(SystemClock().Now())}, {"event", event}};
  for (const auto& [key, value] : fields) object[key] = value;
  std::string line = boost::json::serialize(object);
  recent_.push_back(line);
  if (recent_.size() > kKept) recent_.pop_front();
  line += '\n';
  if (fd_ >= 0 && !WriteLine(fd_, line)) ++lost_;
}

std::string EventLog::RecentJson() const {
  std::string text = "[";
  for (const std::string& line : recent_) {
    if (text.size() > 1) text += ",\n";
    text += line;
  }
  return text + "]\n";
}

}  // namespace isthmus::observe
