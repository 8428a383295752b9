// An engine, or a double of one, as a child process.
#ifndef ISTHMUS_TESTS_SUPPORT_ENGINE_PROCESS_H_
#define ISTHMUS_TESTS_SUPPORT_ENGINE_PROCESS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isthmus/net/client.h"
#include "tests/support/net.h"

namespace isthmus::testing {

// A Python program of this repository that prints its port first. Ends with this object.
class EngineProcess {
 public:
  struct Reply {
    int status = 0;
    std::string body;
  };

  EngineProcess(std::string_view script, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {ISTHMUS_PYTHON, std::string(ISTHMUS_SOURCE_DIR "/").append(script)});
    Spawn(arguments);
    loop_.Do([&] { client_.emplace(loop_.loop(), net::ClientLimits()); });
  }
  ~EngineProcess() {
    loop_.Do([&] { client_.reset(); });
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(output_);
  }
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  net::Origin origin() const { return {false, "127.0.0.1", port_}; }
  std::string url() const { return "http://" + origin().Authority(); }

  // Starts a call; a test may go on while it is answered.
  Pending<Reply> Start(std::string method, std::string target, std::string body = {}) {
    return loop_.Spawn([this, method = std::move(method), target = std::move(target),
                        body = std::move(body)]() -> net::Task<Reply> {
      net::RequestHead head;
      head.method = method;
      head.target = target;
      const net::Origin to = origin();
      net::Call call = co_await client_->Send(to, std::move(head), body);
      std::string text = co_await call.ReadBody(1 << 24);
      co_return Reply{call.head().status, std::move(text)};
    });
  }
  // A call that must succeed; its JSON.
  boost::json::value Get(std::string target) { return Json(Start("GET", std::move(target)).get()); }
  boost::json::value Post(std::string target, const boost::json::value& body) {
    return Json(Start("POST", std::move(target), boost::json::serialize(body)).get());
  }
  // Polls until it holds; a failure of the test if it never does.
  static void Await(const std::function<bool()>& condition, std::string_view what) {
    for (int i = 0; i < kPatienceSeconds * 200; ++i) {
      if (condition()) return;
      poll(nullptr, 0, 5);
    }
    FAIL() << "never: " << what;
  }

 private:
  static boost::json::value Json(const Reply& reply) {
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.body.empty() ? boost::json::value() : boost::json::parse(reply.body);
  }

  void Spawn(const std::vector<std::string>& command) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (const std::string& argument : command) {
      arguments.push_back(const_cast<char*>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&process_, arguments[0], &files, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    output_ = ends[0];
    port_ = static_cast<uint16_t>(std::stoi(FirstLine()));
  }
  std::string FirstLine() const {
    std::string line;
    char c = 0;
    while (c != '\n') {
      pollfd ready = {output_, POLLIN, 0};
      if (poll(&ready, 1, kPatienceSeconds * 1000) != 1 || read(output_, &c, 1) != 1) {
        throw std::runtime_error("the engine printed no port");
      }
      line += c;
    }
    return line;
  }

  pid_t process_ = 0;
  int output_ = -1;
  uint16_t port_ = 0;
  LoopThread loop_;
  std::optional<net::Client> client_;
};

// A double (tests/engines/double.py), and what it has besides the engine's routes.
class EngineDouble : public EngineProcess {
 public:
  using EngineProcess::EngineProcess;

  // `when` may be empty: the kind's own point.
  void PlanFault(const std::string& route, const std::string& kind, const std::string& when) {
    boost::json::object body = {{"route", route}, {"kind", kind}};
    if (!when.empty()) body["when"] = when;
    Post("/_double/faults", std::move(body));
  }
  void Release() { Post("/_double/release", boost::json::object()); }
  void Manual() { Post("/_double/pacing", {{"manual", true}}); }
  void Step(int tokens) { Post("/_double/step", {{"tokens", tokens}}); }

  boost::json::value State() { return Get("/_double/state"); }
  std::string Violations() { return boost::json::serialize(Get("/_double/violations")); }
  // "GET /is_paused", … of all calls so far that have begun.
  std::vector<std::string> Calls() {
    std::vector<std::string> calls;
    const boost::json::value log = Get("/_double/log");
    for (const boost::json::value& entry : log.as_array()) {
      calls.push_back(entry.at("method").as_string().c_str() + std::string(" ") +
                      entry.at("path").as_string().c_str());
    }
    return calls;
  }
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_ENGINE_PROCESS_H_
