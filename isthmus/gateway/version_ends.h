// Finds in the bytes of a stream what its events say of the last version. Pure.
#ifndef ISTHMUS_GATEWAY_VERSION_ENDS_H_
#define ISTHMUS_GATEWAY_VERSION_ENDS_H_

#include <string>
#include <string_view>

#include "isthmus/board/manifest.h"

namespace isthmus::gateway {

class VersionEnds {
 public:
  // The next bytes, cut anywhere; what the last event in them says, kNoVersion if none says
  // anything. A text that a model made cannot: its quotes are escaped.
  board::VersionNumber Feed(std::string_view piece);

 private:
  board::VersionNumber Find(std::string_view text);

  std::string rest_;  // the end of what came, if that may be the beginning of a stamp
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_VERSION_ENDS_H_
