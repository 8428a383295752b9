#include "isthmus/net/access.h"

#include <gtest/gtest.h>

#include "isthmus/base/bytes.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::net {
namespace {

Headers Showing(const std::string& token) {
  Headers headers;
  headers.Add("Authorization", "Bearer " + token);
  return headers;
}

class AccessTest : public ::testing::Test {
 protected:
  fs::path Tokens(const std::string& name, std::string_view text) {
    WriteFileAtomic(dir_.path() / name, AsBytes(text));
    return dir_.path() / name;
  }

  isthmus::testing::TempDir dir_;
};

TEST_F(AccessTest, WithoutFilesEverybodyIsLetIn) {
  const Access access({});
  EXPECT_TRUE(access.Admits({}, Caller::kClient));
  EXPECT_TRUE(access.Admits({}, Caller::kOperator));
}

TEST_F(AccessTest, ClientsTokensCountForOperatorsToo) {
  const Access access({nullptr, Tokens("clients", "c\n"), std::nullopt});
  EXPECT_TRUE(access.Admits(Showing("c"), Caller::kOperator));
  EXPECT_FALSE(access.Admits({}, Caller::kOperator));
}

TEST_F(AccessTest, OperatorsTokensAreTheirOwn) {
  const Access access({nullptr, Tokens("clients", "c\n"), Tokens("operators", "o\n")});
  EXPECT_TRUE(access.Admits(Showing("c"), Caller::kClient));
  EXPECT_FALSE(access.Admits(Showing("c"), Caller::kOperator));
  EXPECT_TRUE(access.Admits(Showing("o"), Caller::kOperator));
  EXPECT_FALSE(access.Admits(Showing("o"), Caller::kClient));
}

TEST_F(AccessTest, WhatCannotBeReadAgainStaysAsItWas) {
  Access access({nullptr, Tokens("clients", "c\n"), Tokens("operators", "o\n")});
  Tokens("clients", "d\n");
  Tokens("operators", "");
  isthmus::testing::ExpectError(
      ErrorCode::kInvalid, [&] { access.Reload(); }, "bearer tokens");
  EXPECT_TRUE(access.Admits(Showing("c"), Caller::kClient));
  Tokens("operators", "p\n");
  access.Reload();
  EXPECT_TRUE(access.Admits(Showing("d"), Caller::kClient));
  EXPECT_TRUE(access.Admits(Showing("p"), Caller::kOperator));
}

}  // namespace
}  // namespace isthmus::net
