// An idle connection that tells when the server at its other end has gone.
#ifndef ISTHMUS_NET_TRIPWIRE_H_
#define ISTHMUS_NET_TRIPWIRE_H_

#include <functional>
#include <memory>

#include "isthmus/net/http.h"
#include "isthmus/net/task.h"
#include "isthmus/net/within.h"

namespace isthmus::net {

// A TCP connection to an origin on which nothing is ever sent, not even TLS's greeting: when the
// process that accepted it ends, however it ends, its kernel ends the connection. A server may also
// end it because it waited too long for a request, so a cut wire is a reason to ask, no proof. Used
// on one loop's thread only.
class Tripwire {
 public:
  // `on_cut` is called on the loop each time that a wire is found cut there.
  Tripwire(Loop& loop, Origin origin, std::function<void()> on_cut);
  ~Tripwire();
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;

  // Connects, if it is not intact. kUnavailable, naming the origin: nobody accepts there, or none
  // of its addresses did within the limit. One call at a time.
  Task<void> Arm(Milliseconds limit);
  // Whether there is a connection that the server has left alone until now. Asks the kernel (one
  // system call), so it knows of an end of which the loop has not been told yet.
  bool intact() const;

 private:
  struct Wire;

  Loop& loop_;
  Origin origin_;
  std::function<void()> on_cut_;
  std::shared_ptr<Wire> wire_;  // null before the first Arm, and after a failed one
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_TRIPWIRE_H_
