// A pool with a clock of its own, and what islands say to it.
#ifndef ISTHMUS_TESTS_SUPPORT_POOL_H_
#define ISTHMUS_TESTS_SUPPORT_POOL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

inline IslandReport ReportOf(VersionNumber served, VersionNumber head = kNoVersion,
                             std::string run = "r") {
  IslandReport report;
  report.run = std::move(run);
  report.ready = true;
  report.phase = "ready";
  report.served = served;
  report.head = head == kNoVersion ? served : head;
  return report;
}

inline net::Origin UrlOf(std::string_view host) { return {false, std::string(host), 8089}; }

inline Registration RegistrationOf(const std::string& id, VersionNumber served = 7) {
  Registration registration;
  registration.id = id;
  registration.instance = "i1";
  registration.url = UrlOf(id);
  registration.report = ReportOf(served);
  return registration;
}

class PoolTest : public testing::Test {
 protected:
  void Make(PoolOptions options) { pool_ = std::make_unique<Pool>(options); }
  void Register(const std::string& id, VersionNumber served = 7) {
    pool_->Register(RegistrationOf(id, served), now_);
  }
  // Heartbeats of all that are named go on, once a second.
  void Pass(milliseconds time, const std::vector<Registration>& alive = {}) {
    for (milliseconds left = time; left.count() > 0; left -= milliseconds(250)) {
      now_ += std::min(left, milliseconds(250));
      for (const Registration& one : alive) pool_->Register(one, now_);
      pool_->Advance(now_);
    }
  }
  uint32_t At(std::string_view id) { return pool_->Find(id).value(); }
  const IslandView& View(std::string_view id) { return pool_->snapshot().islands.at(At(id)); }
  IslandState State(std::string_view id) { return View(id).state; }
  std::string Reason(std::string_view id) {
    for (const IslandFacts& facts : pool_->Facts(now_)) {
      if (facts.id == id) return facts.reason;
    }
    return "not there";
  }
  VersionNumber Newest(std::string_view run = "r") {
    return pool_->snapshot().runs.at(pool_->FindRun(run).value()).newest;
  }
  void End(std::string_view id, Outcome outcome) {
    pool_->OnSent(At(id), now_);
    pool_->OnEnded(At(id), outcome, now_);
  }
  ErrorCode CodeOf(const Registration& registration) {
    try {
      pool_->Register(registration, now_);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::kInternal;
  }

  std::unique_ptr<Pool> pool_ = std::make_unique<Pool>(PoolOptions{});
  MonotonicTime now_{std::chrono::hours(1)};
};
}  // namespace isthmus::gateway

#endif  // ISTHMUS_TESTS_SUPPORT_POOL_H_
