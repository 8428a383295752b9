// What a rollout request's headers ask of the gate. Pure.
#ifndef ISTHMUS_LANE_REQUEST_HEADERS_H_
#define ISTHMUS_LANE_REQUEST_HEADERS_H_

#include <optional>
#include <string>

#include "isthmus/lane/request.h"
#include "isthmus/lane/request_body.h"
#include "isthmus/net/http.h"

namespace isthmus::lane {

struct HeaderFields {
  Request request;
  bool spans = false;                    // the answer should say which token is of which version
  std::optional<milliseconds> deadline;  // from its arrival: all of it must have ended by then
  Priority priority = Priority::kTraining;
  std::string request_id;  // the answer repeats it; empty: none
};

// Reads every field whose name begins with "Isthmus-" (docs/request-lane.md, "Headers"). kInvalid,
// naming it, for one that is not known, comes twice, is named by Connection or has a malformed
// value: a misspelled constraint must not be taken for none.
HeaderFields ReadHeaders(const net::Headers& headers);

// The request that body and headers make together, checked (Merge, Check).
Request Joined(const RequestBody& body, const HeaderFields& headers);

// Removes what is between the client and the sidecar: "Isthmus-…" in a request for the engine, and
// in an answer of the engine's, which may not speak for the sidecar.
void RemoveIsthmusFields(net::Headers* headers);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_REQUEST_HEADERS_H_
