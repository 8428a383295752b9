#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/scripted_engine.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::CallByName;
using isthmus::testing::ExpectError;
using isthmus::testing::ScriptedEngine;

void Call(ScriptedEngine& engine, const std::string& name) {
  engine.Run([&](Engine& port) { return CallByName(port, name); });
}

TEST(WebhookTest, PostsThePathAndTheLabel) {
  ScriptedEngine engine("webhook", {{"POST /load", {"anything", 204}}}, {}, "secret", "/load?a=b");
  const Abilities abilities = engine.Run([](Engine& port) { return port.Probe(); });
  EXPECT_FALSE(abilities.pauses || abilities.labels || abilities.generates);
  for (const char* call :
       {"Inspect", "Settle", "Pause", "Wait", "Load", "Flush", "Verify", "Resume", "Canary"}) {
    Call(engine, call);
  }
  const auto requests = engine.Requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].target, "/load?a=b");
  EXPECT_EQ(requests[0].authorization, "Bearer secret");
  EXPECT_EQ(requests[0].body, R"({"checkpoint":"/v2","weight_version":"v2"})");
}

TEST(WebhookTest, AnythingButSuccessIsAnError) {
  ScriptedEngine engine("webhook", {{"POST /", {"disk full", 500}}});
  ExpectError(
      ErrorCode::kUnavailable, [&] { Call(engine, "Load"); }, "webhook:http://", "500",
      "disk full");
  engine.Set("POST /", {"moved", 302});
  ExpectError(
      ErrorCode::kUnavailable, [&] { Call(engine, "Load"); }, "302");
}

}  // namespace
}  // namespace isthmus::engine
