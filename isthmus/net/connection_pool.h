// The connections that a client keeps, by origin. Used by client.cc and call.cc only.
#ifndef ISTHMUS_NET_CONNECTION_POOL_H_
#define ISTHMUS_NET_CONNECTION_POOL_H_

#include <map>
#include <memory>
#include <vector>

#include "isthmus/net/client.h"
#include "isthmus/net/connection.h"

namespace isthmus::net {

// An unused connection has a read pending: one that its server closes leaves at once, without a
// system call to ask.
class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  struct Lease {
    std::shared_ptr<Connection> connection;
    bool reused = false;
  };

  ConnectionPool(Loop& loop, ClientLimits limits, std::shared_ptr<const ClientTls> tls);

  // The unused connection that was used last, or a new one; `fresh` asks for a new one.
  Task<Lease> Take(const Origin& origin, bool fresh);
  // Keeps a connection whose last answer was read to its end.
  void Return(const Origin& origin, std::shared_ptr<Connection> connection);
  // Closes what is unused and keeps nothing from now on.
  void Close();

  const ClientLimits& limits() const { return limits_; }
  ClientCounters& counters() { return counters_; }

 private:
  using Unused = std::vector<std::shared_ptr<Connection>>;

  Task<std::shared_ptr<Connection>> Connect(const Origin& origin);
  Task<std::shared_ptr<Connection>> ConnectTo(const Origin& origin,
                                              const asio::ip::tcp::endpoint& endpoint);
  void Forget(const Origin& origin, const Connection* connection);

  Loop& loop_;
  ClientLimits limits_;
  std::shared_ptr<const ClientTls> tls_;
  std::shared_ptr<DeadlineList> deadlines_;
  std::map<Origin, Unused> unused_;
  ClientCounters counters_;
  bool closed_ = false;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_CONNECTION_POOL_H_
