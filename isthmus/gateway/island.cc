#include "isthmus/gateway/island.h"

#include <algorithm>
#include <utility>

namespace isthmus::gateway {
namespace {

constexpr float kFirstShare = 0.1F;
constexpr int kRegisteredPolls = 5;  // of registered islands only every fifth poll is made
constexpr int kRefusedPolls = 10;    // for one, of islands that refuse

double SecondsOf(MonotonicTime::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

float ShareAfter(MonotonicTime::duration serving, milliseconds slow_start) {
  if (serving >= slow_start) return 1;
  const double part = std::max(0.0, SecondsOf(serving) / SecondsOf(slow_start));
  return kFirstShare + (1 - kFirstShare) * static_cast<float>(part);
}

IslandState StateOf(Cause cause) {
  switch (cause) {
    case Cause::kGone:
      return IslandState::kGone;
    case Cause::kLeaving:
    case Cause::kStopped:
      return IslandState::kDraining;
    case Cause::kGateClosed:
      return IslandState::kCommitting;
    case Cause::kOnItsWay:
      return IslandState::kStaging;
    case Cause::kNone:
      return IslandState::kReady;
    default:
      return IslandState::kSuspect;
  }
}

void Island::Restart(MonotonicTime now, uint32_t in_flight) {
  leaving = reported = refused = false;
  report = std::make_shared<const IslandReport>();
  silences = 0;
  silence.clear();
  polled_at = MonotonicTime::min();
  breaker = Breaker();
  fresh = true;
  inherited = in_flight;
  damper.OnReturn(now);
}

void Island::OnAnswer(MonotonicTime now) {
  if (silences >= kMaxSilences) {
    damper.OnReturn(now);
    // Who said that it leaves and went silent is back.
    leaving = false;
  }
  silences = 0;
}

void Island::TakeReport(IslandReport said, MonotonicTime now) {
  report = std::make_shared<const IslandReport>(std::move(said));
  reported = true;
  reported_at = now;
  refused = false;
}

Cause Island::Judge(const PoolOptions& options, MonotonicTime now) const {
  if (!present) return Cause::kGone;
  if (leaving) return Cause::kLeaving;
  if (reported && report->phase == "stopped") return Cause::kStopped;
  if (suspicion.Active(now)) return Cause::kBrokenPromise;
  if (damper.hold().Active(now)) return Cause::kFlapping;
  if (silences >= kMaxSilences) return Cause::kUnreachable;
  if (!reported) return Cause::kNoReport;
  if (now - reported_at > options.stale) return Cause::kStaleReport;
  if (breaker.open()) return Cause::kBreaker;
  if (report->gate_closed) return Cause::kGateClosed;
  if (!report->ready) return Cause::kNotReady;
  return report->target == kNoVersion ? Cause::kNone : Cause::kOnItsWay;
}

std::string Island::Reason(Cause cause, MonotonicTime now) const {
  const auto left = [now](const Hold& hold) { return SecondsOf(hold.until() - now); };
  switch (cause) {
    case Cause::kGone:
      return fmt::format("gone for {:.0f} s", SecondsOf(now - gone_at));
    case Cause::kLeaving:
      return "it said that it leaves";
    case Cause::kStopped:
      return "its sidecar is stopped";
    case Cause::kBrokenPromise:
      return fmt::format("it broke a promise; suspect for {:.0f} s more", left(suspicion));
    case Cause::kFlapping:
      return fmt::format("it comes and goes; held for {:.0f} s more", left(damper.hold()));
    case Cause::kUnreachable:
      return silence;
    case Cause::kNoReport:
      return silence.empty() ? "it has not said anything yet" : silence;
    case Cause::kStaleReport:
      return fmt::format("its last report is {:.0f} s old", SecondsOf(now - reported_at));
    case Cause::kBreaker:
      return fmt::format("{} requests in a row failed there", breaker.failures());
    case Cause::kNotReady:
      return report->reason.empty() ? report->phase
                                    : fmt::format("{}: {}", report->phase, report->reason);
    case Cause::kGateClosed:
      return fmt::format("its gate is closed for version {}", report->target);
    case Cause::kOnItsWay:
    case Cause::kNone:
      break;
  }
  return "";
}

float Island::Share(const PoolOptions& options, MonotonicTime now) const {
  return fresh ? kFirstShare : ShareAfter(now - serving_since, options.slow_start);
}

MonotonicTime::duration Island::PollInterval(const PoolOptions& options, milliseconds every) const {
  if (refused) return MonotonicTime::duration(every) / kRefusedPolls;
  const bool talks = source == IslandSource::kRegistered && reported && silences == 0 && !leaving;
  // Not so seldom that its report would become stale meanwhile.
  return talks ? std::max(every, std::min(every * kRegisteredPolls, options.stale / 2)) : every;
}

}  // namespace isthmus::gateway
