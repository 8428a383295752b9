#include "isthmus/gateway/query.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::gateway {
namespace {

using isthmus::testing::ExpectError;

TEST(QueryTest, ParametersAreTakenOut) {
  Query query("version=41&fraction=0.9&name=");
  EXPECT_EQ(query.TakeCount("version", 100), 41);
  EXPECT_EQ(query.TakeFraction("fraction"), 0.9);
  EXPECT_EQ(query.Take("name"), "");
  EXPECT_EQ(query.Take("name"), std::nullopt);
  query.End();
}

TEST(QueryTest, WhatIsWrongIsNamed) {
  const auto refuse = [](std::string_view text, std::string_view what) {
    ExpectError(
        ErrorCode::kInvalid,
        [&] {
          Query query(text);
          query.TakeCount("n", 9);
          query.TakeFraction("f");
          query.End();
        },
        what);
  };
  refuse("n=10", "n: \"10\"");
  refuse("n=-1", "n: ");
  refuse("n=", "n: ");
  refuse("n=1&n=2", "n: given twice");
  refuse("n", "NAME=VALUE");
  refuse("=1", "NAME=VALUE");
  refuse("f=1.1", "f: ");
  refuse("f=nan", "f: ");
  refuse("f=0x1", "f: ");
  refuse("m=1", "m: unknown");
}

}  // namespace
}  // namespace isthmus::gateway
