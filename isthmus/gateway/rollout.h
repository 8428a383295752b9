// A finished rollout as it is written down: docs/rollouts.md, "A line". Pure.
#ifndef ISTHMUS_GATEWAY_ROLLOUT_H_
#define ISTHMUS_GATEWAY_ROLLOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/base/clock.h"
#include "isthmus/board/manifest.h"

namespace isthmus::gateway {

// Texts that are empty and optionals that are not set are left out of the line.
struct Rollout {
  std::string request_id;  // 1 to 128 of [A-Za-z0-9._-]
  WallTime arrived;
  std::string gateway;  // the instance's name
  std::string run;
  std::string session;
  std::string priority;
  std::string island;
  std::string route;  // the path of the request target
  std::string traceparent;
  int status = 200;
  uint32_t attempts = 1;
  std::optional<board::VersionNumber> version_start;
  std::optional<board::VersionNumber> version_end;
  std::optional<uint64_t> lag_start;
  std::optional<uint64_t> lag_end;
  // In milliseconds from the arrival.
  double queued_ms = 0;
  double first_byte_ms = 0;
  double total_ms = 0;
  bool streamed = false;
  bool cut = false;     // RolloutCollector::cut
  std::string request;  // JSON, as it came; empty if requests are not recorded
  std::string answer;   // JSON: RolloutCollector::TakeAnswer
};

// One line without its end. `request` and `answer` are embedded as they are, but for line ends
// between tokens, if they are one JSON value in UTF-8, and left out if they are not. Other texts
// that are no UTF-8 lose the bytes that are not ASCII. kInvalid for an id of another form.
std::string ToLine(const Rollout& rollout);

// Whether it may be a request's id.
bool IsRequestId(std::string_view id);

// The id of a line that ToLine wrote; empty for any other text.
std::string_view IdOfLine(std::string_view line);

// `json` on one line; nullopt if it is not exactly one JSON value in UTF-8.
std::optional<std::string> OnOneLine(std::string_view json);

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ROLLOUT_H_
