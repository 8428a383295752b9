#include "isthmus/gateway/sources.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <list>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/net/offload.h"
#include "isthmus/net/within.h"

namespace isthmus::gateway {
namespace {

using net::Task;

// What tells one content of a file from another: replaced, grown or written again.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t bytes = -1, modified_s = 0, modified_ns = 0;

  bool operator==(const FileIdentity&) const = default;
};

// One file or name, and what it said last.
struct Source {
  std::string name;  // for messages
  std::vector<ListedIsland> islands;
  std::string trouble;  // of the last reading; empty: none
};

FileIdentity IdentityOf(const fs::path& file) {
  struct stat facts = {};
  if (::stat(file.c_str(), &facts) != 0) ThrowErrno(errno, "look at", file.string());
  return {facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec};
}

std::string IdOf(const net::Origin& url) {
  std::string id = fmt::format("{}-{}", url.host, url.port);
  for (char& c : id) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!allowed) c = '-';
  }
  if (id.starts_with('.')) id.front() = '-';
  return id;
}

}  // namespace

ListedIsland ParseListed(std::string_view text) {
  ListedIsland island;
  const size_t sign = text.find('=');
  const bool named = sign != text.npos && sign < text.find(':');
  const std::string_view url = named ? text.substr(sign + 1) : text;
  island.url = net::Origin::Parse(net::TrimBlanks(url));
  island.id = named ? std::string(net::TrimBlanks(text.substr(0, sign))) : IdOf(island.url);
  CheckIslandId(island.id);
  return island;
}

std::vector<ListedIsland> ParseListedLines(std::string_view text) {
  std::vector<ListedIsland> islands;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = net::TrimBlanks(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      islands.push_back(ParseListed(line));
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("line {}", number));
    }
  }
  return islands;
}

struct Sources::State : std::enable_shared_from_this<State> {
  State(net::Loop& l, SourceOptions o, observe::EventLog& e)
      : loop(l), options(std::move(o)), events(&e) {}

  net::Loop& loop;
  SourceOptions options;
  observe::EventLog* events;
  OnChange on_change;
  bool stopped = false;
  std::vector<ListedIsland> fixed;
  std::list<Source> sources;
  std::list<net::SteadyTimer> timers;
  net::asio::thread_pool worker{1};

  static Task<void> WatchFile(std::shared_ptr<State> self, Source* source);
  static Task<void> WatchName(std::shared_ptr<State> self, Source* source, net::Origin url);
  Task<void> Pause(milliseconds time);
  void Take(Source* source, std::vector<ListedIsland> islands);
  void Miss(Source* source, const std::string& why) const;
  void Tell();
};

// Until Stop, at the latest.
Task<void> Sources::State::Pause(milliseconds time) {
  timers.emplace_back(loop.get_executor(), time);
  const auto timer = std::prev(timers.end());
  boost::system::error_code ignored;
  co_await timer->async_wait(net::asio::redirect_error(net::kAwait, ignored));
  timers.erase(timer);
}

void Sources::State::Tell() {
  std::vector<ListedIsland> all = fixed;
  for (const Source& source : sources) {
    all.insert(all.end(), source.islands.begin(), source.islands.end());
  }
  on_change(all);
}

void Sources::State::Take(Source* source, std::vector<ListedIsland> islands) {
  if (islands.empty()) return Miss(source, "it names no island");
  if (!source->trouble.empty()) events->Write("islands_read", {{"source", source->name}});
  source->trouble.clear();
  if (source->islands == islands) return;
  source->islands = std::move(islands);
  Tell();
}

void Sources::State::Miss(Source* source, const std::string& why) const {
  if (std::exchange(source->trouble, why) == why) return;
  events->Write("islands_unread", {{"source", source->name}, {"error", why}});
}

Task<void> Sources::State::WatchFile(std::shared_ptr<State> self, Source* source) {
  struct Reading {
    FileIdentity identity;
    std::optional<std::vector<ListedIsland>> islands;  // none: nothing has changed
    std::string trouble;
  };
  FileIdentity known;
  while (!self->stopped) {
    // The identity first: what changes after it is seen the next time.
    auto read = [file = *self->options.file, known] {
      Reading reading;
      try {
        reading.identity = IdentityOf(file);
        if (reading.identity == known) return reading;
        const std::string text = ReadFile(file, kMaxFileBytes);
        reading.islands = ParseListedLines(text);
      } catch (const Error& error) {
        reading.trouble = error.what();
      }
      return reading;
    };
    Reading reading = co_await net::Offload(self->worker, std::move(read));
    if (self->stopped) co_return;
    known = reading.identity;
    if (!reading.trouble.empty()) self->Miss(source, reading.trouble);
    if (reading.islands) self->Take(source, std::move(*reading.islands));
    co_await self->Pause(self->options.file_poll);
  }
}

Task<void> Sources::State::WatchName(std::shared_ptr<State> self, Source* source, net::Origin url) {
  using Tcp = net::asio::ip::tcp;
  net::asio::ip::basic_resolver<Tcp, net::Executor> resolver(self->loop.get_executor());
  const std::string service = std::to_string(url.port);
  while (!self->stopped) {
    boost::system::error_code error;
    const auto found =
        co_await resolver.async_resolve(url.host, service, Tcp::resolver::numeric_service,
                                        net::asio::redirect_error(net::kAwait, error));
    if (self->stopped) co_return;
    std::vector<ListedIsland> islands;
    for (const auto& entry : found) {
      net::Origin address = url;
      address.host = entry.endpoint().address().to_string();
      islands.push_back({IdOf(address), std::move(address)});
    }
    // Name servers answer in an order of their own, and system files may say an address twice.
    std::ranges::sort(islands);
    islands.erase(std::unique(islands.begin(), islands.end()), islands.end());
    if (error) {
      self->Miss(source, error.message());
    } else {
      self->Take(source, std::move(islands));
    }
    co_await self->Pause(self->options.name_poll);
  }
}

Sources::Sources(net::Loop& loop, SourceOptions options, observe::EventLog& events)
    : state_(std::make_shared<State>(loop, std::move(options), events)) {
  for (const std::string& text : state_->options.islands) {
    state_->fixed.push_back(ParseListed(text));
  }
}

Sources::~Sources() { Stop(); }

void Sources::Start(OnChange on_change) {
  State& state = *state_;
  state.on_change = std::move(on_change);
  state.Tell();
  const auto executor = state.loop.get_executor();
  if (state.options.file) {
    Source* source = &state.sources.emplace_back(Source{state.options.file->string(), {}, ""});
    net::asio::co_spawn(executor, State::WatchFile(state_, source), net::asio::detached);
  }
  for (const net::Origin& url : state.options.names) {
    Source* source = &state.sources.emplace_back(Source{url.Authority(), {}, ""});
    net::asio::co_spawn(executor, State::WatchName(state_, source, url), net::asio::detached);
  }
}

void Sources::Stop() {
  state_->stopped = true;
  for (net::SteadyTimer& timer : state_->timers) timer.cancel();
}

}  // namespace isthmus::gateway
