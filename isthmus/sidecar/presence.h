// Whether the engines are still the processes whose weights were proven.
#ifndef ISTHMUS_SIDECAR_PRESENCE_H_
#define ISTHMUS_SIDECAR_PRESENCE_H_

#include <deque>
#include <functional>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/net/bell.h"
#include "isthmus/net/tripwire.h"

namespace isthmus::sidecar {

// An engine that its supervisor starts again answers, on the same address, with the weights that it
// began with. Looks come too late for that, however often: so a wire lies at each engine, and once
// one is cut no answer leaves until all engines have been asked again. That is enough, since a
// process ends before its successor can answer.
//
// A server that ends every idle connection soon would keep its island from answering. After a few
// such lives in a row its wire is given up, and only looks guard it. Used on its loop's thread
// only.
class Presence {
 public:
  // Nothing guards engines that take no requests themselves.
  Presence(net::Loop& loop, const std::vector<net::Origin>& engines);

  // Called on the loop when a wire was cut.
  void set_on_doubt(std::function<void()> on_doubt) { on_doubt_ = std::move(on_doubt); }

  // Makes all wires intact: to be called before what the engines are asked for as a proof.
  // kUnavailable, naming the engine that accepts no connection. One call at a time.
  net::Task<void> Arm();
  // What they were asked for since Arm was as it should be. A wire that was cut since stays a
  // doubt.
  void Prove();
  void Doubt() { proven_ = false; }
  // Other programs may be there now: nothing is proven, no wire is given up.
  void Forget();

  // A system call for each engine.
  bool proven();
  // Returns when it is so. kUnavailable after Close; cancellable.
  net::Task<void> UntilProven();
  // Nobody will ask the engines any more.
  void Close();

 private:
  struct Guard {
    Guard(net::Loop& loop, const net::Origin& origin, const std::function<void()>& on_cut)
        : wire(loop, origin, on_cut) {}
    bool intact() const { return given_up || wire.intact(); }

    net::Tripwire wire;
    MonotonicTime armed_at = MonotonicTime::min();
    int short_lives = 0;  // in a row
    bool given_up = false;
  };
  static net::Task<void> Arm(Guard& guard);

  std::deque<Guard> guards_;
  std::function<void()> on_doubt_;
  net::Bell proof_;
  bool proven_ = false;
  bool closed_ = false;
};

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_PRESENCE_H_
