#include "isthmus/codec/simd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/support/errors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;

TEST(SimdTest, TargetsHaveNamesOfTheirOwnAndEndWithScalar) {
  const std::vector<std::string> targets = SimdTargets();
  EXPECT_EQ(std::set(targets.begin(), targets.end()).size(), targets.size());
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.back(), "scalar");
}

TEST(SimdTest, TheBestTargetIsInUseUnlessAnotherIsChosen) {
  const std::vector<std::string> targets = SimdTargets();
  EXPECT_EQ(SimdTarget(), targets.front());
  for (const std::string& target : targets) {
    SelectSimd(target);
    EXPECT_EQ(SimdTarget(), target);
    EXPECT_EQ(SimdTargets(), targets);
  }
  SelectSimd("");
  EXPECT_EQ(SimdTarget(), targets.front());
}

TEST(SimdTest, UnknownNamesAreRefusedAndTheKnownOnesListed) {
  const std::vector<std::string> targets = SimdTargets();
  for (const std::string name : {"sse9", "AVX2", " "}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { SelectSimd(name); }, name, targets.front(), targets.back());
  }
  EXPECT_EQ(SimdTarget(), targets.front());
}

}  // namespace
}  // namespace isthmus::codec
