// What a request asks of the version that serves it: values, their text forms, their validation.
// Pure. All errors of this file are kInvalid and begin with the name of the field that is wrong.
#ifndef ISTHMUS_LANE_REQUEST_H_
#define ISTHMUS_LANE_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "isthmus/board/manifest.h"

namespace isthmus::lane {

using board::kNoVersion;
using board::VersionNumber;
using std::chrono::milliseconds;

// Everything that is set must hold at admission. Nothing set: any version will do.
struct Constraint {
  std::optional<VersionNumber> min_version;  // 0 asks for nothing
  std::optional<VersionNumber> exact_version;
  // How far the version may be behind the newest one: in versions or in time, not both.
  std::optional<uint64_t> max_lag_versions;
  std::optional<milliseconds> max_lag_ms;
  std::string run;  // empty: whichever is served

  bool operator==(const Constraint&) const = default;
};

struct Request {
  Constraint constraint;
  std::string session;  // empty: belongs to none
  // This turn must be served by the version of the session's first pinned turn.
  bool pin_session = false;
  // How long it waits for a version that satisfies it. Not set: for none, but a version switch that
  // is under way is waited for. 0: for nothing at all.
  std::optional<milliseconds> wait_ms;
};

// An hour: longer than any HTTP client waits for a first byte.
inline constexpr milliseconds kMaxWait = std::chrono::hours(1);
// Longer than any generation.
inline constexpr milliseconds kMaxDeadline = std::chrono::hours(24);
// A lag above this is no bound on anything.
inline constexpr milliseconds kMaxLagTime = std::chrono::hours(24 * 365);

// What a request is for; those who queue requests weigh it.
enum class Priority : uint8_t { kTraining, kEvaluation };

// The text of a header's value, or of a JSON number as it was written: decimal digits alone. Signs,
// fractions, exponents and numbers above `board::kMaxVersion` are refused.
VersionNumber ParseVersion(std::string_view field, std::string_view text);
// Milliseconds, 0 to kMaxWait.
milliseconds ParseWait(std::string_view field, std::string_view text);
// Milliseconds, 1 to kMaxDeadline.
milliseconds ParseDeadline(std::string_view field, std::string_view text);
// "3": versions. "1500ms", "30s": time, to kMaxLagTime. Sets the one of `constraint`'s two lags.
void ParseMaxLag(std::string_view field, std::string_view text, Constraint* constraint);

// "training", "evaluation".
Priority ParsePriority(std::string_view field, std::string_view text);
// 1 to 128 of [A-Za-z0-9._-].
std::string ParseRequestId(std::string_view field, std::string_view text);

// One constraint of what two places (body and headers) say of one request. A field that both set
// must be equal in both. Not checked further.
Constraint Merge(const Constraint& body, const Constraint& headers);

// Refuses: versions out of range, exact version 0, a minimum above the exact version, two lags, a
// lag or a wait below 0 or above its maximum, a run or session name other than 1 to 128 characters
// of [A-Za-z0-9._-] not beginning with '.', a pin without a session.
void Check(const Request& request);

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_REQUEST_H_
