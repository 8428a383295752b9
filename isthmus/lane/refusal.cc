#include "isthmus/lane/refusal.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::lane {
namespace {

namespace json = boost::json;
using board::VersionOrNull;

// Long enough that a refused client does not load an island that is busy with itself, and shorter
// than any switch is worth waiting for elsewhere.
constexpr std::string_view kRetryAfterSeconds = "1";

Answer JsonAnswer(int status, const json::object& body) {
  Answer answer;
  answer.head.status = status;
  answer.head.headers.Add("Content-Type", "application/json");
  answer.body = json::serialize(body);
  return answer;
}

// In the form that trainers' clients read.
Answer NotReady(const Decision& decision, const Constraint& asked) {
  const VersionNumber target = asked.exact_version.value_or(asked.min_version.value_or(kNoVersion));
  Answer answer = JsonAnswer(409, {{"type", "WeightVersionNotReady"},
                                   {"target_version", VersionOrNull(target)},
                                   {"applied", VersionOrNull(decision.version)},
                                   {"message", ReasonText(decision.reason)}});
  answer.head.headers.Add("Retry-After", kRetryAfterSeconds);
  return answer;
}

}  // namespace

Answer RefusalOf(const Decision& decision, const Constraint& asked) {
  switch (decision.outcome) {
    case Outcome::kNotReady:
      return NotReady(decision, asked);
    case Outcome::kRevoked:
      return JsonAnswer(410,
                        {{"error",
                          {{"type", "WeightVersionRevoked"},
                           {"version", VersionOrNull(asked.exact_version.value_or(kNoVersion))},
                           {"message", ReasonText(decision.reason)}}}});
    case Outcome::kUnavailable:
      return EngineUnavailable(ReasonText(decision.reason));
    case Outcome::kAdmitted:
    case Outcome::kWaiting:
    case Outcome::kAborted:
      break;
  }
  Throw(ErrorCode::kInternal, "answer a request: it was not refused");
}

Answer EngineUnavailable(std::string_view message) {
  Answer answer = JsonAnswer(
      503, {{"error", {{"type", "EngineUnavailable"}, {"retryable", true}, {"message", message}}}});
  answer.head.headers.Add("Retry-After", kRetryAfterSeconds);
  return answer;
}

Answer DeadlineExceeded(std::string_view message) {
  return JsonAnswer(504, {{"error", {{"type", "DeadlineExceeded"}, {"message", message}}}});
}

Answer RouteBlocked(std::string_view method, std::string_view target) {
  // A target can be long, and is the client's.
  constexpr size_t kShownBytes = 200;
  const std::string message = fmt::format(
      "{} {}: not a route that the sidecar passes on; control of the engine is the "
      "sidecar's",
      method, target.substr(0, kShownBytes));
  return JsonAnswer(403, {{"error", {{"type", "RouteBlocked"}, {"message", message}}}});
}

}  // namespace isthmus::lane
