#include "isthmus/replica/chain_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace isthmus::replica {

using board::kNoVersion;
using board::VersionNumber;

const Plan& ChainSearch::Next(VersionNumber held, const Sha256Digest& held_digest) {
  if (held == kNoVersion) source_.reset();  // what was held may have been lost
  for (;;) {
    if (!source_) source_.emplace(board_, run_, target_, held, held_digest);
    const bool shortest = anchors_ == 0;
    manifests_ =
        shortest ? source_->OnShortestWay(unusable_) : source_->DownToAnchor(anchors_, unusable_);
    std::set<PlannedPayload> blocked = unusable_;
    if (shortest) blocked.insert(source_->gone().begin(), source_->gone().end());
    if (std::optional<Plan> plan = MakePlan(manifests_, held, target_, blocked)) {
      plan_ = std::move(*plan);
      return plan_;
    }
    if (shortest || manifests_.size() > seen_) {  // there may be more further down
      seen_ = shortest ? 0 : manifests_.size();
      ++anchors_;
    } else if (failure_ && failure_->code() == ErrorCode::kNotFound && !looked_again_) {
      LookAgain();
    } else {
      GiveUp(held);
    }
  }
}

// Cleaning removes what a payload added since has made needless: the board as it is now.
void ChainSearch::LookAgain() {
  looked_again_ = true;
  source_.reset();
  unusable_.clear();
  anchors_ = seen_ = 0;
}

void ChainSearch::GiveUp(VersionNumber held) const {
  if (failure_) {
    const bool cleaned = source_->gone().contains({target_, 0});
    throw failure_->Annotated(fmt::format("pull version {} of run {}{}", target_, run_,
                                          cleaned ? ", whose payloads were cleaned" : ""));
  }
  Throw(ErrorCode::kNotFound, "pull version {} of run {}: no chain leads there from {}", target_,
        run_, held == kNoVersion ? "nothing" : fmt::format("version {}", held));
}

void ChainSearch::Blame(const PlannedPayload& payload, const Error& why) {
  unusable_.insert(payload);
  Remember(why);
}

const board::Manifest& ChainSearch::ManifestOf(VersionNumber version) const {
  return *std::ranges::find(manifests_, version, &board::Manifest::version);
}

const board::Payload& ChainSearch::PayloadOf(const PlannedPayload& planned) const {
  return ManifestOf(planned.version).payloads[planned.index];
}

std::string ChainSearch::Describe(const PlannedPayload& planned) const {
  const board::Payload& payload = PayloadOf(planned);
  if (payload.kind == board::PayloadKind::kAnchor) return fmt::format("anchor {}", planned.version);
  if (payload.base + 1 == planned.version) return fmt::format("patch {}", planned.version);
  return fmt::format("patch {} from {}", planned.version, payload.base);
}

}  // namespace isthmus::replica
