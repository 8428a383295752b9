#include "isthmus/sidecar/update.h"

#include <algorithm>
#include <cmath>

#include "isthmus/board/json_fields.h"

namespace isthmus::sidecar {
namespace {

using board::VersionOrNull;

// To microseconds: more digits would be noise.
double Rounded(double milliseconds) { return std::round(milliseconds * 1000) / 1000; }

}  // namespace

std::string_view UpdateKindName(UpdateKind kind) {
  switch (kind) {
    case UpdateKind::kSwitch:
      return "switch";
    case UpdateKind::kBoot:
      return "boot";
    case UpdateKind::kReseed:
      return "reseed";
    case UpdateKind::kAdoption:
      return "adoption";
  }
  return "unknown";
}

double Update::own_ms() const {
  const double others =
      drain_ms + pause_ms + load_ms + flush_ms + verify_ms + learn_ms + resume_ms + canary_ms;
  return std::max(0.0, closed_ms - others);
}

boost::json::object Update::ToJson() const {
  boost::json::object object = {{"kind", UpdateKindName(kind)},
                                {"from", VersionOrNull(from)},
                                {"to", VersionOrNull(to)},
                                {"ended_at", FormatTime(ended)},
                                {"ok", error.empty()},
                                {"fetched_bytes", fetched_bytes},
                                {"fetch_ms", Rounded(fetch_ms)},
                                {"apply_ms", Rounded(apply_ms)},
                                {"check_ms", Rounded(check_ms)},
                                {"stage_ms", Rounded(stage_ms)},
                                {"hold_ms", Rounded(hold_ms)},
                                {"drain_ms", Rounded(drain_ms)},
                                {"pause_ms", Rounded(pause_ms)},
                                {"load_ms", Rounded(load_ms)},
                                {"flush_ms", Rounded(flush_ms)},
                                {"verify_ms", Rounded(verify_ms)},
                                {"learn_ms", Rounded(learn_ms)},
                                {"resume_ms", Rounded(resume_ms)},
                                {"canary_ms", Rounded(canary_ms)},
                                {"closed_ms", Rounded(closed_ms)},
                                {"paused_ms", Rounded(paused_ms)},
                                {"own_ms", Rounded(own_ms())},
                                {"changes_only", changes_only},
                                {"canary_unchanged", canary_unchanged}};
  if (!error.empty()) object["error"] = error;
  return object;
}

}  // namespace isthmus::sidecar
