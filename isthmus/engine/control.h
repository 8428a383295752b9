// Control calls to one engine over HTTP: one request, one deadline, one answer of bounded size.
#ifndef ISTHMUS_ENGINE_CONTROL_H_
#define ISTHMUS_ENGINE_CONTROL_H_

#include <boost/json/value.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "isthmus/engine/answer.h"
#include "isthmus/net/client.h"
#include "isthmus/net/task.h"

namespace isthmus::engine {

using net::Task;

// The time that one call of the port has for all that it asks of the engine.
class Budget {
 public:
  explicit Budget(net::Milliseconds limit) : end_(Clock::now() + limit) {}

  // What is left, rounded up; zero once it is over.
  net::Milliseconds left() const;

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point end_;
};

// Every call has a connection of its own: on a kept one that the engine has just closed a call
// would fail, and nobody could say whether it took effect. Nothing is sent twice. Errors are as
// engine.h says and begin with "ENGINE: METHOD TARGET"; kCorrupt also for answers above 16 MiB.
class Control {
 public:
  // `engine` is the name for errors. A bearer token, if there is one, is sent with every call.
  Control(net::Loop& loop, std::string engine, net::Origin origin, std::string bearer_token,
          std::shared_ptr<const net::ClientTls> tls);

  const std::string& engine() const { return engine_; }
  const net::Origin& origin() const { return origin_; }

  // The answer whatever its status.
  Task<Answer> TryGet(Budget budget, std::string target);
  Task<Answer> TryPost(Budget budget, std::string target, boost::json::value body);
  // The answer to a call that must succeed (Answer::RequireSuccess).
  Task<Answer> Get(Budget budget, std::string target);
  Task<Answer> Post(Budget budget, std::string target);  // without a body
  Task<Answer> Post(Budget budget, std::string target, boost::json::value body);

 private:
  Task<Answer> Call(Budget budget, std::string method, std::string target, std::string body);
  Task<Answer> Exchange(std::string call, net::RequestHead head, std::string body);

  std::string engine_;
  net::Origin origin_;
  std::string bearer_token_;
  net::Client client_;
};

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_CONTROL_H_
