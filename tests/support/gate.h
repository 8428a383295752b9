// A gate in the middle of its life, requests for it and what it says, in short.
#ifndef ISTHMUS_TESTS_SUPPORT_GATE_H_
#define ISTHMUS_TESTS_SUPPORT_GATE_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "isthmus/sidecar/gate.h"

namespace isthmus::sidecar {

inline constexpr MonotonicTime kStart = MonotonicTime(std::chrono::hours(1));
constexpr MonotonicTime At(int64_t ms) { return kStart + milliseconds(ms); }

inline GateOptions Options() {
  GateOptions options;
  options.run = "grpo-7";
  options.closed_limit = milliseconds(1'000);
  options.drain_limit = milliseconds(5'000);
  options.hold_limit = milliseconds(10'000);
  options.sessions = {100, milliseconds(2'000), milliseconds(30'000)};
  return options;
}

// At version 41, of which it knows since `At(0)` that it is the newest.
inline Gate ReadyGate(const GateOptions& options = Options()) {
  Gate gate(options);
  gate.Learn(41, At(0));
  gate.Open(41, At(0));
  return gate;
}

inline Request Any() { return {}; }
inline Request Min(VersionNumber version) { return {{version, {}, {}, {}, ""}, "", false, {}}; }
inline Request Exact(VersionNumber version) { return {{{}, version, {}, {}, ""}, "", false, {}}; }
inline Request Lag(uint64_t versions) { return {{{}, {}, versions, {}, ""}, "", false, {}}; }
inline Request TimeLag(int64_t ms) { return {{{}, {}, {}, milliseconds(ms), ""}, "", false, {}}; }
inline Request OfRun(const std::string& run) { return {{{}, {}, {}, {}, run}, "", false, {}}; }
inline Request Pinned(const std::string& session) { return {{}, session, true, {}}; }
inline Request Waiting(int64_t ms, Request request) {
  request.wait_ms = milliseconds(ms);
  return request;
}

inline void Switch(Gate* gate, VersionNumber version, MonotonicTime now) {
  gate->Close(DrainPolicy::kInPlace, version, now);
  gate->BeginCommit(now);
  gate->Open(version, now);
}

// Decisions of the gate, in short.
inline Decision Admitted(RequestId id, VersionNumber version) {
  return {id, Outcome::kAdmitted, Reason::kNone, version};
}
inline Decision NotReady(RequestId id, Reason reason, VersionNumber version = 41) {
  return {id, Outcome::kNotReady, reason, version};
}
inline Decision Unavailable(RequestId id, Reason reason, VersionNumber version = 41) {
  return {id, Outcome::kUnavailable, reason, version};
}
inline Decision Waits(RequestId id, Reason reason, VersionNumber version = 41) {
  return {id, Outcome::kWaiting, reason, version};
}
inline Decision Revoked(RequestId id, VersionNumber version = 41) {
  return {id, Outcome::kRevoked, Reason::kRevoked, version};
}
inline Decision Aborted(RequestId id, Reason reason = Reason::kDraining,
                        VersionNumber version = 41) {
  return {id, Outcome::kAborted, reason, version};
}

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_TESTS_SUPPORT_GATE_H_
