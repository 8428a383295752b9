// The relay: serves a board to a region over HTTP (docs/relay.md).
#ifndef ISTHMUS_RELAY_RELAY_H_
#define ISTHMUS_RELAY_RELAY_H_

#include <memory>
#include <optional>
#include <string>

#include "isthmus/net/access.h"
#include "isthmus/net/server.h"
#include "isthmus/observe/event_log.h"
#include "isthmus/relay/metrics.h"
#include "isthmus/relay/rate_limit.h"
#include "isthmus/relay/selection.h"
#include "isthmus/relay/target.h"
#include "isthmus/store/store.h"

namespace isthmus::relay {

struct RelayOptions {
  std::string board;              // a location, as store::OpenStore takes it
  store::StoreOptions store;      // how to reach it
  std::optional<fs::path> cache;  // none: everything passes through
  uint64_t cache_bytes = 0;
  net::Milliseconds poll{500};      // of watched runs
  uint64_t client_bytes_per_s = 0;  // for each address; 0: no limit
  net::ServerOptions server;        // its `tls` is the one of `access`
  net::AccessOptions access;        // nothing is an operator's
  std::string event_log;            // a file, "-" for standard error, empty for none
  net::Milliseconds drain{30'000};  // for requests in flight, at the end
};

// Used on its loop's thread only.
class Relay {
 public:
  // Opens the board and the cache, and listens; blocks. Errors as Board::Open and DiskCache, but an
  // origin that cannot be reached, or that is not there, is put up with if the cache says which
  // board it is of.
  Relay(net::Loop& loop, RelayOptions options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  uint16_t port() const { return server_->port(); }

  // Serves until Terminate, then ends watches, lets answers finish, and waits for the store's calls
  // that are under way.
  net::Task<void> Run();
  void Terminate();
  // Reads certificates and tokens again; what cannot be read stays as it was, and is logged.
  void Reload();

 private:
  net::Task<void> Handle(net::Exchange& exchange);
  bool MayAsk(const net::RequestHead& request) const;
  net::Task<void> Serve(net::Exchange& exchange, const Target& target);
  net::Task<void> ServeObject(net::Exchange& exchange, std::string key);
  net::Task<void> ServeImmutable(net::Exchange& exchange, std::string key);
  net::Task<void> ServeMutable(net::Exchange& exchange, std::string key);
  net::Task<void> ServeList(net::Exchange& exchange, std::string prefix);
  net::Task<void> ServeWatch(net::Exchange& exchange, WatchTarget watch);
  net::Task<void> Stream(net::Exchange& exchange, ObjectReader& reader, net::ResponseHead head,
                         Selection part);
  net::Task<std::string_view> NextPiece(net::Exchange& exchange, ObjectReader& reader, uint64_t at,
                                        uint64_t end);
  net::Task<void> Pace(const net::Exchange& exchange, uint64_t bytes);
  net::Task<void> RespondText(net::Exchange& exchange, std::string_view type, std::string body);
  std::string HealthText() const;
  std::string MetricsText();
  void OpenBoard();

  RelayOptions options_;
  observe::EventLog events_;
  std::shared_ptr<DiskCache> cache_;
  Errands errands_;
  std::string board_;  // uuid
  std::unique_ptr<Origin> origin_;
  std::unique_ptr<Objects> objects_;
  std::unique_ptr<WatchHub> watches_;
  RateLimit rate_;
  Metrics metrics_;
  net::Access access_;
  uint64_t client_bytes_ = 0;
  bool terminating_ = false;
  net::Bell terminate_;
  std::unique_ptr<net::Server> server_;  // last: its handlers use all of the above
};

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_RELAY_H_
