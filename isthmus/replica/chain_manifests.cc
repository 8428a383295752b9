#include "isthmus/replica/chain_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::replica {
namespace {

using board::Extra;
using board::kNoVersion;
using board::Manifest;
using board::PayloadKind;
using board::VersionNumber;

// `blocked(place)`: whether a payload is not to be used.
template <typename Blocked>
bool HasAnchor(const Manifest& manifest, const Blocked& blocked) {
  for (size_t i = 0; i < manifest.payloads.size(); ++i) {
    if (manifest.payloads[i].kind == PayloadKind::kAnchor && !blocked({manifest.version, i})) {
      return true;
    }
  }
  return false;
}

// The oldest version, from `floor` on, that a patch of this version begins at; without one the
// version before.
template <typename Blocked>
VersionNumber OldestBase(const Manifest& manifest, VersionNumber floor, const Blocked& blocked) {
  VersionNumber oldest = manifest.version - 1;
  for (size_t i = 0; i < manifest.payloads.size(); ++i) {
    const board::Payload& payload = manifest.payloads[i];
    if (payload.kind != PayloadKind::kPatch || blocked({manifest.version, i})) continue;
    if (payload.base >= floor) oldest = std::min(oldest, payload.base);
  }
  return oldest;
}

}  // namespace

ChainManifests::ChainManifests(const board::Board& board, std::string run, VersionNumber target,
                               VersionNumber held, const Sha256Digest& held_digest)
    : board_(board),
      run_(std::move(run)),
      target_(target),
      held_(held),
      held_digest_(held_digest) {}

ChainManifests::Manifests ChainManifests::OnShortestWay(const std::set<PlannedPayload>& unusable) {
  const bool forward = held_ != kNoVersion && held_ <= target_;
  // One step behind, as who follows a run is: nothing can be shorter than the patch itself.
  if (!forward || target_ - held_ > 1) ListExtras();
  const auto blocked = [&](const PlannedPayload& place) { return IsBlocked(place, unusable); };
  const VersionNumber anchor = NewestAnchor(unusable);
  Manifests manifests;
  for (VersionNumber version = target_; version != kNoVersion;) {
    const Manifest* const manifest = Read(version);
    if (manifest == nullptr) break;
    manifests.push_back(*manifest);
    if (forward ? version == held_ : HasAnchor(*manifest, blocked)) break;
    const VersionNumber end = forward ? held_ : kNoVersion + 1;
    version = OldestBase(*manifest, version > anchor ? std::max(anchor, end) : end, blocked);
  }
  return manifests;
}

ChainManifests::Manifests ChainManifests::DownToAnchor(size_t count,
                                                       const std::set<PlannedPayload>& unusable) {
  ListExtras();
  const auto blocked = [&](const PlannedPayload& place) { return unusable.contains(place); };
  Manifests manifests;
  for (VersionNumber version = target_; version != kNoVersion; --version) {
    const Manifest* const manifest = Read(version);
    if (manifest == nullptr) break;
    manifests.push_back(*manifest);
    if (HasAnchor(*manifest, blocked) && --count == 0) break;
  }
  return manifests;
}

void ChainManifests::ListExtras() {
  if (extras_) return;
  extras_.emplace();
  try {
    extras_ = board::ListExtras(board_, run_);
  } catch (const Error& error) {
    // A store that cannot list; if it is away, reading the log says so.
    if (error.code() != ErrorCode::kUnavailable) throw;
    notes_.push_back(fmt::format("payloads added later are left out: {}", error.what()));
  }
  kept_ = board::ReadKept(board_, run_);
  read_.clear();  // what was read without them
}

bool ChainManifests::IsBlocked(const PlannedPayload& place,
                               const std::set<PlannedPayload>& unusable) const {
  return unusable.contains(place) || gone_.contains(place);
}

// Of those added later, kNoVersion if there is none; an anchor of a log entry ends the way by
// itself.
VersionNumber ChainManifests::NewestAnchor(const std::set<PlannedPayload>& unusable) {
  if (!extras_) return kNoVersion;
  for (auto extra = extras_->rbegin(); extra != extras_->rend(); ++extra) {
    if (extra->kind != PayloadKind::kAnchor || extra->version > target_) continue;
    const Manifest* const manifest = Read(extra->version);
    const auto blocked = [&](const PlannedPayload& place) { return IsBlocked(place, unusable); };
    if (manifest != nullptr && HasAnchor(*manifest, blocked)) return extra->version;
  }
  return kNoVersion;
}

const Manifest* ChainManifests::Read(VersionNumber version) {
  const auto at = read_.find(version);
  if (at != read_.end()) return at->second ? &*at->second : nullptr;
  std::optional<Manifest> manifest = board_.Read(run_, version);
  if (!manifest && version == target_) {
    Throw(ErrorCode::kNotFound, "pull version {} of run {} from {}: no such version", target_, run_,
          board_.store().Describe());
  }
  if (manifest && version == held_ && manifest->digest != held_digest_) {
    Throw(ErrorCode::kCorrupt,
          "pull run {}: the replica holds version {} with digest {}, the log says {}", run_, held_,
          FormatSha256(held_digest_), FormatSha256(manifest->digest));
  }
  if (manifest && !kept_.MayHave(version)) {
    for (size_t i = 0; i < manifest->payloads.size(); ++i) gone_.insert({version, i});
  }
  if (manifest && extras_) manifest = ReadWithExtras(std::move(*manifest));
  const auto& entry = read_.emplace(version, std::move(manifest)).first->second;
  return entry ? &*entry : nullptr;
}

Manifest ChainManifests::ReadWithExtras(Manifest manifest) {
  const auto of_version = std::ranges::equal_range(*extras_, manifest.version, {}, &Extra::version);
  for (const Extra& extra : of_version) {
    try {
      auto payload = board::ReadExtra(board_, run_, extra, manifest.digest);
      if (payload) manifest.payloads.push_back(std::move(*payload));
    } catch (const Error& error) {
      if (!MeansDamage(error)) throw;
      notes_.push_back(fmt::format("left out a payload: {}", error.what()));
    }
  }
  return manifest;
}

}  // namespace isthmus::replica
