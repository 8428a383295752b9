// A recorder by itself, so that Python tests can kill it and put what they like in its store's
// place:
//
//   record_tool LOCATION SPOOL INSTANCE [ROTATE_BYTES]
//
// Reads commands in lines on standard input and answers each in one line:
//
//   record ID BYTES   "ok" or "refused": an answer of so many characters
//   find ID           the line, "none", or "CODE: MESSAGE"
//   rotate            "ok"
//   counters          an object
//
// At the end of its input it uploads what is there, for at most 30 s.
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <iostream>
#include <sstream>
#include <thread>

#include "isthmus/base/error.h"
#include "isthmus/gateway/recorder.h"

namespace isthmus::gateway {
namespace {

constexpr milliseconds kStopLimit{30'000};

class Tool {
 public:
  explicit Tool(const std::vector<std::string>& arguments)
      : events_("-"), recorder_(loop_, Options(arguments), events_, arguments.at(2)) {}

  void Serve() {
    auto work = net::asio::make_work_guard(loop_);
    auto run = net::asio::co_spawn(loop_.get_executor(), recorder_.Run(), net::asio::use_future);
    std::thread thread([this] { loop_.run(); });
    for (std::string line; std::getline(std::cin, line);) {
      fmt::print("{}\n", Answer(line));
      std::fflush(stdout);
    }
    Await(recorder_.Stop(kStopLimit));
    run.get();
    work.reset();
    thread.join();
  }

 private:
  static RecordOptions Options(const std::vector<std::string>& arguments) {
    RecordOptions options;
    options.location = arguments.at(0);
    options.spool = arguments.at(1);
    if (arguments.size() > 3) options.rotate_bytes = std::stoull(arguments[3]);
    return options;
  }

  template <typename T>
  T Await(net::Task<T> task) {
    return net::asio::co_spawn(loop_.get_executor(), std::move(task), net::asio::use_future).get();
  }
  template <typename Action>
  auto Do(Action action) {
    std::packaged_task<decltype(action())()> task(std::move(action));
    auto result = task.get_future();
    net::asio::post(loop_, [&task] { task(); });
    return result.get();
  }

  std::string Answer(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    std::string id;
    size_t bytes = 0;
    words >> command >> id >> bytes;
    if (command == "record") return Record(id, bytes);
    if (command == "find") return Find(id);
    if (command == "counters") return Counters();
    Do([this] { return recorder_.Rotate(), 0; });
    return "ok";
  }

  std::string Record(const std::string& id, size_t bytes) {
    Rollout rollout;
    rollout.request_id = id;
    rollout.arrived = SystemClock().Now();
    rollout.answer = "\"" + std::string(bytes, 'x') + "\"";
    return Do([&] { return recorder_.Record(rollout); }) ? "ok" : "refused";
  }
  std::string Find(const std::string& id) {
    try {
      return Await(recorder_.Find(id)).value_or("none");
    } catch (const Error& error) {
      return fmt::format("{}: {}", ErrorCodeName(error.code()), error.what());
    }
  }
  std::string Counters() {
    const RecorderCounters c = Do([this] { return recorder_.counters(); });
    return fmt::format(
        R"({{"recorded":{},"refused":{},"uploaded_segments":{},"upload_failures":{},"spool_bytes":{}}})",
        c.recorded, c.refused, c.uploaded_segments, c.upload_failures, c.spool_bytes);
  }

  net::Loop loop_{1};
  observe::EventLog events_;
  Recorder recorder_;
};

int Main(const std::vector<std::string>& arguments) {
  try {
    Tool(arguments).Serve();
  } catch (const Error& error) {
    fmt::print("{}: {}\n", ErrorCodeName(error.code()), error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace isthmus::gateway

int main(int argc, char** argv) { return isthmus::gateway::Main({argv + 1, argv + argc}); }
