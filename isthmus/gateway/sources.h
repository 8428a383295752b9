// Islands that are named by their operator: on the command line, in a file, by a DNS name.
// Rules: docs/gateway.md, "Islands".
#ifndef ISTHMUS_GATEWAY_SOURCES_H_
#define ISTHMUS_GATEWAY_SOURCES_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/gateway/pool.h"
#include "isthmus/net/task.h"
#include "isthmus/observe/event_log.h"

namespace isthmus::gateway {

// "[ID=]URL"; without an id it is HOST-PORT, what an id may not have replaced by '-'. kInvalid.
ListedIsland ParseListed(std::string_view text);
// One a line; '#' begins a comment. kInvalid, naming the line, if any is wrong.
std::vector<ListedIsland> ParseListedLines(std::string_view text);

struct SourceOptions {
  std::vector<std::string> islands = {};  // "[ID=]URL"
  std::optional<fs::path> file = {};
  std::vector<net::Origin> names = {};  // each address of the host is an island
  milliseconds file_poll{1'000};
  milliseconds name_poll{5'000};
};

// Used on its loop's thread only.
class Sources {
 public:
  using OnChange = std::function<void(const std::vector<ListedIsland>&)>;

  static constexpr uint64_t kMaxFileBytes = uint64_t{4} << 20;

  // kInvalid for what is wrong in `islands`. The event log must live until Stop.
  Sources(net::Loop& loop, SourceOptions options, observe::EventLog& events);
  ~Sources();
  Sources(const Sources&) = delete;
  Sources& operator=(const Sources&) = delete;

  // Calls `on_change` at once with what the command line says, then with all that is known whenever
  // it changes. A file or name that cannot be read, or gives nothing, changes nothing; events
  // "islands_unread" and "islands_read" say so, once each.
  void Start(OnChange on_change);
  // Nothing is called any more. What waits for a disk or a name server ends by itself.
  void Stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_SOURCES_H_
