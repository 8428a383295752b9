// Tells gateways of this island: that it is there, what it serves, that it leaves.
// Rules: docs/gateway.md, "Registration".
#ifndef ISTHMUS_SIDECAR_ANNOUNCER_H_
#define ISTHMUS_SIDECAR_ANNOUNCER_H_

#include <boost/json/object.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isthmus/net/client.h"
#include "isthmus/net/task.h"
#include "isthmus/net/tls.h"
#include "isthmus/observe/event_log.h"

namespace isthmus::sidecar {

struct AnnouncerOptions {
  std::vector<net::Origin> gateways;  // empty: nobody is told
  std::string island_id;              // empty: DefaultIslandId
  std::string advertise;              // the URL that gateways send requests to
  std::string token;                  // shown to the gateways; empty: none
  net::Milliseconds ttl{10'000};      // that a gateway believes without another word
  std::shared_ptr<const net::ClientTls> tls;
};

// The machine's name and the port, what an id may not have replaced by '-'.
std::string DefaultIslandId(std::string host_name, uint16_t port);
// Where others reach a listener: kInvalid, naming --advertise, unless `host` is an address of one
// machine.
std::string AdvertisedUrl(const std::string& host, uint16_t port, bool tls);

// Used on its loop's thread only.
class Announcer {
 public:
  using Info = std::function<boost::json::object()>;  // /server_info as of now

  static constexpr net::Milliseconds kCallLimit{2'000};
  static constexpr net::Milliseconds kLeaveLimit{2'000};

  // kInvalid for a wrong id or URL. `info` and the event log must live until Leave has returned,
  // or this is destroyed.
  Announcer(net::Loop& loop, AnnouncerOptions options, Info info, observe::EventLog& events);
  ~Announcer();
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  // Each gateway is told at once, and more than three times within the TTL; one that cannot be
  // reached is tried again after a pause that is doubled, up to a third of the TTL.
  void Start();
  // What is said may have changed. If state, version, target or readiness did, all gateways that
  // answer are told at once.
  void Nudge();
  // Tells all gateways that the island leaves, and nothing after it; returns after kLeaveLimit at
  // the latest. Once.
  net::Task<void> Leave();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_ANNOUNCER_H_
