#include "isthmus/gateway/island_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string Judge(std::string_view start, std::string_view end, const lane::Constraint& asked,
                  std::string_view run = "r") {
  net::ResponseHead head;
  head.headers.Add("Isthmus-Run", run);
  if (!start.empty()) head.headers.Add("Isthmus-Version-Start", start);
  if (!end.empty()) head.headers.Add("Isthmus-Version-End", end);
  return BrokenPromise(head, asked, "r");
}

lane::Constraint AtLeast(VersionNumber version) {
  lane::Constraint constraint;
  constraint.min_version = version;
  return constraint;
}
lane::Constraint Exactly(VersionNumber version) {
  lane::Constraint constraint;
  constraint.exact_version = version;
  return constraint;
}

TEST(BrokenPromiseTest, AStampThatSatisfiesKeepsIt) {
  EXPECT_THAT(Judge("41", "", AtLeast(41)), IsEmpty());
  EXPECT_THAT(Judge("41", "43", AtLeast(41)), IsEmpty());
  EXPECT_THAT(Judge("41", "41", Exactly(41)), IsEmpty());
  EXPECT_THAT(Judge("43", "42", AtLeast(41)), IsEmpty()) << "43 was revoked";
  // How far behind it may be is judged by the island.
  lane::Constraint lag = AtLeast(2);
  lag.max_lag_versions = 0;
  EXPECT_THAT(Judge("3", "3", lag), IsEmpty());
}

TEST(BrokenPromiseTest, AStampThatDoesNotBreaksIt) {
  EXPECT_THAT(Judge("40", "41", AtLeast(41)), HasSubstr("began at version 40"));
  EXPECT_THAT(Judge("41", "42", Exactly(41)), HasSubstr("ended at version 42"));
  EXPECT_THAT(Judge("43", "40", AtLeast(41)), HasSubstr("ended at version 40"));
  EXPECT_THAT(Judge("41", "41", AtLeast(41), "q"), HasSubstr("of the run \"q\""));
}

TEST(BrokenPromiseTest, SoDoesNone) {
  EXPECT_THAT(Judge("", "", {}), HasSubstr("no version"));
  EXPECT_THAT(Judge("0", "", {}), HasSubstr("no version"));
  EXPECT_THAT(Judge("4x", "", {}), HasSubstr("no version"));
  EXPECT_THAT(Judge("99999999999", "", {}), HasSubstr("no version"));
  EXPECT_THAT(Judge("4", "end", {}), HasSubstr("no version"));
}

}  // namespace
}  // namespace isthmus::gateway
