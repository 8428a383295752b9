#include "isthmus/sim/payloads.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::sim {
namespace {

// More pairs than islands are at different versions; then all are made anew.
constexpr size_t kMaxPlans = 10'000;

board::Payload OfOnePart(board::PayloadKind kind, VersionNumber base, double bytes) {
  board::Payload payload;
  payload.kind = kind;
  payload.base = base;
  payload.parts.resize(1);
  payload.parts[0].bytes = static_cast<uint64_t>(bytes);
  return payload;
}

}  // namespace

Payloads::Payloads(const Scenario& scenario) : scenario_(scenario) { Publish(); }

uint64_t Payloads::NextBytes() const { return Next().payload_bytes(); }

void Payloads::Publish() { manifests_.push_back(Next()); }

board::Payload Payloads::Anchor() const {
  return OfOnePart(board::PayloadKind::kAnchor, kNoVersion, scenario_.model.checkpoint_bytes);
}

board::Payload Payloads::Patch(VersionNumber base, VersionNumber version) const {
  return OfOnePart(board::PayloadKind::kPatch, base, PatchBytes(scenario_.model, version - base));
}

board::Manifest Payloads::Next() const {
  const TrainerFacts& trainer = scenario_.trainer;
  board::Manifest manifest;
  manifest.version = manifests_.size() + 1;
  manifest.parent = manifests_.size();
  const bool first = manifest.version == 1;
  const bool anchor = trainer.anchor_every > 0 && manifest.version % trainer.anchor_every == 0;
  if (!first && !scenario_.full_checkpoints) {
    manifest.payloads.push_back(Patch(manifest.parent, manifest.version));
  }
  if (first || anchor || scenario_.full_checkpoints) manifest.payloads.push_back(Anchor());
  const bool skip = trainer.skip_every > 1 && !scenario_.full_checkpoints &&
                    manifest.version > trainer.skip_every &&
                    manifest.version % trainer.skip_every == 1;
  if (skip) {
    manifest.payloads.push_back(Patch(manifest.version - trainer.skip_every, manifest.version));
  }
  return manifest;
}

const replica::Plan& Payloads::PlanFor(VersionNumber held, VersionNumber target) {
  if (plans_.size() >= kMaxPlans) plans_.clear();
  const auto [at, added] = plans_.try_emplace({held, target});
  if (!added) return at->second;
  auto plan = replica::MakePlan(Window(held, target), held, target);
  if (!plan) Throw(ErrorCode::kInternal, "plan version {} from {}: no way", target, held);
  return at->second = *std::move(plan);
}

// The entries that a replica reads (replica/chain_manifests.h): back from the target to the held
// version, or to the newest anchor where nothing is held.
std::vector<board::Manifest> Payloads::Window(VersionNumber held, VersionNumber target) const {
  VersionNumber from = held;
  if (held == kNoVersion || held > target) {
    from = target;
    while (from > 1 && !manifests_[from - 1].has_anchor()) --from;
  }
  return {manifests_.begin() + static_cast<std::ptrdiff_t>(from - 1),
          manifests_.begin() + static_cast<std::ptrdiff_t>(target)};
}

uint64_t Payloads::BytesOf(const replica::PlannedPayload& payload) const {
  return manifests_[payload.version - 1].payloads[payload.index].bytes();
}

}  // namespace isthmus::sim
