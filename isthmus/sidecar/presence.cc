#include "isthmus/sidecar/presence.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::sidecar {
namespace {

using net::Task;

constexpr net::Milliseconds kConnectLimit{5'000};
constexpr std::chrono::seconds kShortLife{1};
constexpr int kShortLives = 5;

}  // namespace

Presence::Presence(net::Loop& loop, const std::vector<net::Origin>& engines) {
  for (const net::Origin& origin : engines) {
    guards_.emplace_back(loop, origin, [this] {
      Doubt();
      if (on_doubt_) on_doubt_();
    });
  }
}

Task<void> Presence::Arm() {
  for (Guard& guard : guards_) {
    if (!guard.intact()) co_await Arm(guard);
  }
}

// A server that is gone has not ended its connection out of impatience.
Task<void> Presence::Arm(Guard& guard) {
  const MonotonicTime now = MonotonicNow();
  const bool was_short =
      guard.armed_at != MonotonicTime::min() && now - guard.armed_at < kShortLife;
  guard.short_lives = was_short ? guard.short_lives + 1 : 0;
  guard.given_up = guard.short_lives >= kShortLives;
  if (guard.given_up) co_return;
  guard.armed_at = MonotonicTime::min();
  co_await guard.wire.Arm(kConnectLimit);
  guard.armed_at = now;
}

void Presence::Prove() {
  proven_ = true;
  if (proven()) proof_.Ring();
}

void Presence::Forget() {
  proven_ = false;
  for (Guard& guard : guards_) {
    guard.short_lives = 0;
    guard.given_up = false;
  }
}

bool Presence::proven() {
  proven_ = proven_ && std::ranges::all_of(guards_, &Guard::intact);
  return proven_;
}

Task<void> Presence::UntilProven() {
  while (!proven()) {
    if (closed_) {
      Throw(ErrorCode::kUnavailable,
            "pass on an answer: an engine may have been started again since its weights were "
            "proven, and the sidecar was told to stop");
    }
    co_await proof_.Wait(net::kUntilRung);
  }
}

void Presence::Close() {
  closed_ = true;
  proof_.Ring();
}

}  // namespace isthmus::sidecar
