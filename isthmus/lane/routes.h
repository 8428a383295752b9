// Which of an engine's routes clients reach through the sidecar: an allow-list. Pure.
#ifndef ISTHMUS_LANE_ROUTES_H_
#define ISTHMUS_LANE_ROUTES_H_

#include <string_view>

#include "isthmus/lane/answer_stamp.h"

namespace isthmus::lane {

enum class RouteKind {
  kGenerate,  // what the weights compute: admitted by version, stamped
  kInform,    // says something that no weights decide: passed on as it is
  kBlocked,   // control of the engine, and whatever is not known to be harmless
};

struct Route {
  RouteKind kind = RouteKind::kBlocked;
  AnswerShape shape = AnswerShape::kObject;
  // Answers name the version of each token by themselves.
  bool native_spans = false;
};

// By method and request target. Paths are compared as they are written, so no other spelling of a
// control route (doubled slashes, escapes, dots) gets through: it is just another unknown path.
Route RouteOf(std::string_view method, std::string_view target);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_ROUTES_H_
