#include "isthmus/gateway/refusals.h"

#include <boost/json/serialize.hpp>

#include "isthmus/board/json_fields.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;

lane::Answer ErrorAnswer(int status, std::string_view type, bool retryable,
                         std::string_view message) {
  lane::Answer answer;
  answer.head.status = status;
  answer.head.headers.Add("Content-Type", "application/json");
  if (retryable) answer.head.headers.Add("Retry-After", "1");
  answer.body = json::serialize(
      json::object{{"error", {{"type", type}, {"retryable", retryable}, {"message", message}}}});
  return answer;
}

}  // namespace

lane::Answer NotReady(const lane::Constraint& asked, VersionNumber newest) {
  const lane::Decision decision{0, lane::Outcome::kNotReady, lane::Reason::kBehind, newest};
  return lane::RefusalOf(decision, asked);
}

lane::Answer Overloaded(std::string_view message) {
  return ErrorAnswer(429, "Overloaded", true, message);
}

lane::Answer DeadlineExceeded() {
  return ErrorAnswer(504, "DeadlineExceeded", false, "the request's deadline passed");
}

}  // namespace isthmus::gateway
