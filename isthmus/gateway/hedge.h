// Asking a second island when the first one is slow (--hedge-ms): the better of two answers.
#ifndef ISTHMUS_GATEWAY_HEDGE_H_
#define ISTHMUS_GATEWAY_HEDGE_H_

#include <boost/asio/cancellation_signal.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/gateway/island_call.h"
#include "isthmus/net/bell.h"

namespace isthmus::gateway {

// Attempts of one request at several islands at once. Used on the loop's thread. Those that have
// not ended when it is destroyed are called off, which ends their generations and says nothing of
// their islands.
class Hedge {
 public:
  struct Attempt {
    Attempt(Pool& pool, uint32_t island) : visit(pool, island) {}
    IslandVisit visit;
    std::optional<Reply> reply;  // none: it has not ended
    bool taken = false;          // Next gave it
  };

  // `body` is what all questions have; their own view of it is not looked at.
  Hedge(net::Loop& loop, net::Client& client, Pool& pool, std::string_view body,
        size_t whole_bytes);
  ~Hedge();
  Hedge(const Hedge&) = delete;
  Hedge& operator=(const Hedge&) = delete;

  void Begin(uint32_t island, Question question, net::RequestHead head);
  // An attempt that has ended, each once; null after the limit, or if there is none left to wait
  // for. It lives as long as this.
  net::Task<Attempt*> Next(net::Milliseconds limit);
  // Calls off all others.
  void KeepOnly(const Attempt& attempt);

 private:
  struct Running;

  static void CallOff(Running& running);

  net::Loop& loop_;
  net::Client& client_;
  Pool& pool_;
  std::shared_ptr<const std::string> body_;
  size_t whole_bytes_;
  std::vector<std::shared_ptr<Running>> running_;
  std::shared_ptr<net::Bell> ended_ = std::make_shared<net::Bell>();
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_HEDGE_H_
