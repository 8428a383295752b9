// The versions that sessions are pinned to, as answers of islands have told them, so that a session
// goes on at another island when its own is gone. Pure; not thread-safe.
#ifndef ISTHMUS_GATEWAY_PINS_H_
#define ISTHMUS_GATEWAY_PINS_H_

#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "isthmus/gateway/snapshot.h"

namespace isthmus::gateway {

class Pins {
 public:
  // Of more sessions than `max` those are forgotten that were named longest ago.
  explicit Pins(size_t max = 100'000) : max_(max) {}

  // kNoVersion: not known.
  VersionNumber Find(std::string_view run, std::string_view session);
  // The first version counts: a pin is never moved.
  void Keep(std::string_view run, std::string_view session, VersionNumber version);

  size_t size() const { return by_name_.size(); }

 private:
  struct Pin {
    std::string name;
    VersionNumber version;
  };

  size_t max_;
  std::list<Pin> recent_;  // the one named last is in front
  std::unordered_map<std::string_view, std::list<Pin>::iterator> by_name_;  // views of recent_
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_PINS_H_
