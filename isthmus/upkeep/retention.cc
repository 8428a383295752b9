#include "isthmus/upkeep/retention.h"

#include <algorithm>

namespace isthmus::upkeep {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::VersionNumber;
using replica::PlannedPayload;

bool IsForked(const board::Payload& payload, const std::set<std::string>& forked) {
  return std::ranges::any_of(payload.parts,
                             [&](const auto& part) { return forked.contains(part.key); });
}

std::set<VersionNumber> ClaimedVersions(const std::vector<Manifest>& manifests,
                                        const Claims& claims, WallTime now) {
  std::set<VersionNumber> claimed;
  for (const board::Pin& pin : claims.pins) {
    if (pin.expires_at > now) claimed.insert(pin.version);
  }
  for (const Manifest& manifest : manifests) {
    const bool forked = std::ranges::any_of(manifest.payloads, [&](const board::Payload& payload) {
      return IsForked(payload, claims.forked);
    });
    if (forked) claimed.insert(manifest.version);
  }
  return claimed;
}

std::set<VersionNumber> PolicyVersions(const std::vector<Manifest>& manifests,
                                       const RetentionPolicy& policy, WallTime now) {
  std::set<VersionNumber> wanted;
  const VersionNumber newest = manifests.back().version;
  for (const Manifest& manifest : manifests) {
    const bool last = newest - manifest.version < std::max<uint64_t>(policy.keep_last, 1);
    const bool multiple = policy.keep_every != 0 && manifest.version % policy.keep_every == 0;
    const bool young = now - manifest.created_at < policy.keep_younger;
    if (last || multiple || young) wanted.insert(manifest.version);
  }
  return wanted;
}

}  // namespace

Retention PlanRetention(const std::vector<Manifest>& manifests, const Claims& claims,
                        const RetentionPolicy& policy, WallTime now) {
  Retention retention;
  if (manifests.empty()) return retention;
  const std::set<VersionNumber> claimed = ClaimedVersions(manifests, claims, now);
  std::set<VersionNumber> wanted = PolicyVersions(manifests, policy, now);
  wanted.insert(claimed.begin(), claimed.end());
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
      const bool claimed_anchor =
          payload.kind == board::PayloadKind::kAnchor && claimed.contains(manifest.version);
      if (between || claimed_anchor) retention.keep.insert(place);
      if (!retention.keep.contains(place)) retention.remove.insert(place);
    }
  }
  return retention;
}

}  // namespace isthmus::upkeep
