#include "isthmus/upkeep/retention.h"

#include <algorithm>

namespace isthmus::upkeep {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::VersionNumber;
using replica::PlannedPayload;

std::set<VersionNumber> WantedVersions(const std::vector<Manifest>& manifests,
                                       const std::vector<board::Pin>& pins,
                                       const RetentionPolicy& policy, WallTime now) {
  std::set<VersionNumber> wanted;
  const VersionNumber newest = manifests.back().version;
  for (const Manifest& manifest : manifests) {
    const bool last = newest - manifest.version < std::max<uint64_t>(policy.keep_last, 1);
    const bool multiple = policy.keep_every != 0 && manifest.version % policy.keep_every == 0;
    const bool young = now - manifest.created_at < policy.keep_younger;
    if (last || multiple || young) wanted.insert(manifest.version);
  }
  for (const board::Pin& pin : pins) {
    if (pin.expires_at > now) wanted.insert(pin.version);
  }
  return wanted;
}

}  // namespace

Retention PlanRetention(const std::vector<Manifest>& manifests, const std::vector<board::Pin>& pins,
                        const RetentionPolicy& policy, WallTime now) {
  Retention retention;
  if (manifests.empty()) return retention;
  const std::set<VersionNumber> wanted = WantedVersions(manifests, pins, policy, now);
  for (const VersionNumber version : wanted) {
    const auto plan = replica::MakePlan(manifests, kNoVersion, version);
    if (!plan) {
      retention.unreachable.push_back(version);
      continue;
    }
    retention.keep.insert(plan->payloads.begin(), plan->payloads.end());
    retention.kept.emplace(version, *plan);
  }
  for (const Manifest& manifest : manifests) {
    for (size_t i = 0; i < manifest.payloads.size(); ++i) {
      const PlannedPayload place = {manifest.version, i};
      const board::Payload& payload = manifest.payloads[i];
      const bool between = payload.kind == board::PayloadKind::kPatch &&
                           retention.kept.contains(manifest.version) &&
                           retention.kept.contains(payload.base);
      if (between) retention.keep.insert(place);
      if (!retention.keep.contains(place)) retention.remove.insert(place);
    }
  }
  return retention;
}

}  // namespace isthmus::upkeep
