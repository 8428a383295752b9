#include "isthmus/net/auth.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::TempDir;

Headers With(std::string_view authorization) {
  Headers headers;
  headers.Add("Authorization", authorization);
  return headers;
}

TEST(BearerTokensTest, KnownTokensAreAdmittedAndNothingElse) {
  const std::string both[] = {"first-token", "second"};
  const BearerTokens tokens{both};
  EXPECT_TRUE(tokens.Admits(With("Bearer first-token")));
  EXPECT_TRUE(tokens.Admits(With("bearer   second")));
  for (std::string_view wrong : {"", "Bearer", "Bearer ", "Bearer secon", "Bearer second2",
                                 "second", "Basic second", "Bearer second first-token"}) {
    EXPECT_FALSE(tokens.Admits(With(wrong))) << wrong;
  }
  EXPECT_FALSE(tokens.Admits(Headers()));
  Headers twice = With("Bearer second");
  twice.Add("authorization", "Bearer second");
  EXPECT_FALSE(tokens.Admits(twice));
}

TEST(BearerTokensTest, FilesHoldOneTokenALine) {
  TempDir directory;
  WriteFileAtomic(directory / "tokens", AsBytes("# clients\n\n  alpha \r\nbeta"));
  const BearerTokens tokens = BearerTokens::FromFile(directory / "tokens");
  EXPECT_TRUE(tokens.Admits(With("Bearer alpha")));
  EXPECT_TRUE(tokens.Admits(With("Bearer beta")));
  EXPECT_FALSE(tokens.Admits(With("Bearer #")));
}

TEST(BearerTokensTest, FilesWithoutOrWithWrongTokensAreRefusedWithoutPrintingThem) {
  TempDir directory;
  WriteFileAtomic(directory / "empty", AsBytes("# nothing\n"));
  WriteFileAtomic(directory / "blank", AsBytes("good\nse cret\n"));
  ExpectError(
      ErrorCode::kInvalid, [&] { BearerTokens::FromFile(directory / "empty"); }, "empty", "none");
  ExpectError(
      ErrorCode::kInvalid, [&] { BearerTokens::FromFile(directory / "blank"); }, "bearer token 2");
  ExpectError(
      ErrorCode::kNotFound, [&] { BearerTokens::FromFile(directory / "no"); }, "no");
}

}  // namespace
}  // namespace isthmus::net
