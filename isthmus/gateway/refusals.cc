#include "isthmus/gateway/refusals.h"

#include <boost/json/serialize.hpp>

namespace isthmus::gateway {

namespace json = boost::json;

lane::Answer NotReady(const lane::Constraint& asked, VersionNumber newest) {
  const lane::Decision decision{0, lane::Outcome::kNotReady, lane::Reason::kBehind, newest};
  return lane::RefusalOf(decision, asked);
}

lane::Answer Overloaded(std::string_view message) {
  lane::Answer answer;
  answer.head.status = 429;
  answer.head.headers.Add("Content-Type", "application/json");
  answer.head.headers.Add("Retry-After", "1");
  answer.body = json::serialize(
      json::object{{"error", {{"type", "Overloaded"}, {"retryable", true}, {"message", message}}}});
  return answer;
}

}  // namespace isthmus::gateway
