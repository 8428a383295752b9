// Payloads as JSON: in manifests, and in objects that add a payload later.
#ifndef ISTHMUS_BOARD_PAYLOAD_JSON_H_
#define ISTHMUS_BOARD_PAYLOAD_JSON_H_

#include <boost/json/object.hpp>
#include <string>

#include "isthmus/board/json_fields.h"
#include "isthmus/board/manifest.h"

namespace isthmus::board {

boost::json::object ToJson(const Payload& payload);

// A payload for `version` of `run`; kCorrupt for what breaks a rule of docs/board.md ("Payload").
// Its objects are the run's own, or those of `fork_run` if that is not empty.
Payload ReadPayload(const JsonFields& fields, const std::string& run, VersionNumber version,
                    const std::string& fork_run = "");

// A version before `version`.
VersionNumber ReadEarlier(const JsonFields& fields, std::string_view key, VersionNumber version);
// Refuses the field unless `path` is one that a file of a checkpoint may have.
void CheckPath(const JsonFields& fields, std::string_view key, std::string_view path);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_PAYLOAD_JSON_H_
