#include "isthmus/relay/target.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::relay {
namespace {

using isthmus::testing::ExpectError;

template <typename Kind>
Kind Read(std::string_view target) {
  const Target read = ParseTarget(target);
  EXPECT_TRUE(std::holds_alternative<Kind>(read)) << target;
  return std::get<Kind>(read);
}

TEST(TargetTest, PathsAreKeys) {
  EXPECT_EQ(Read<ObjectTarget>("/board.json").key, "board.json");
  EXPECT_EQ(Read<ObjectTarget>("/runs/r-1/data/2/ab/part_0.x").key, "runs/r-1/data/2/ab/part_0.x");
  EXPECT_EQ(Read<ObjectTarget>("/runs/%72/%68ead%2Ejson").key, "runs/r/head.json");
  EXPECT_EQ(Read<ObjectTarget>("/v1/runs/watch").key, "v1/runs/watch");
  Read<HealthTarget>("/health");
  Read<MetricsTarget>("/metrics");
}

TEST(TargetTest, ListsTakeAnyPrefixOfAKey) {
  EXPECT_EQ(Read<ListTarget>("/?list=").prefix, "");
  EXPECT_EQ(Read<ListTarget>("/?list=runs/r/log/0").prefix, "runs/r/log/0");
  EXPECT_EQ(Read<ListTarget>("/?list=runs/").prefix, "runs/");
  EXPECT_EQ(Read<ListTarget>("/?list=runs%2Fr%2f").prefix, "runs/r/");
  EXPECT_EQ(Read<ListTarget>("/?list=../%00%ff").prefix, std::string("../\0\xff", 5));
}

TEST(TargetTest, WatchesNameARunAndAVersion) {
  const auto watch = Read<WatchTarget>("/v1/runs/grpo-7/watch?after=41");
  EXPECT_EQ(watch.run, "grpo-7");
  EXPECT_EQ(watch.after, 41u);
  EXPECT_EQ(watch.timeout.count(), 30'000);
  EXPECT_EQ(Read<WatchTarget>("/v1/runs/r/watch?timeout_ms=0&after=0").timeout.count(), 0);
  EXPECT_EQ(Read<WatchTarget>("/v1/runs/r/watch?after=9999999999&timeout_ms=300000").after,
            9'999'999'999u);
}

TEST(TargetTest, WhateverIsAmbiguousIsRefused) {
  for (std::string_view target : {"",
                                  "*",
                                  "board.json",
                                  "http://host/board.json",
                                  "//board.json",
                                  "/board.json/",
                                  "/runs//x",
                                  "/../etc/passwd",
                                  "/runs/../board.json",
                                  "/runs/%2e%2e/board.json",
                                  "/runs/.x",
                                  "/.x",
                                  "/%2Fruns",
                                  "/runs%2Fr",
                                  "/runs/r%00",
                                  "/runs/%",
                                  "/runs/%4",
                                  "/runs/%zz",
                                  "/runs/%+1",
                                  "/runs/ r",
                                  "/runs/r\\x",
                                  "/runs/\xC3\xA4",
                                  "/runs/r#x",
                                  "/board.json?x=1",
                                  "/board.json?x",
                                  "/health?x=1",
                                  "/",
                                  "/?",
                                  "/?list",
                                  "/?list=a&list=a",
                                  "/?list=a&x=1",
                                  "/?list=%2",
                                  "/?list=a%zz",
                                  "/?prefix=a",
                                  "/v1/runs/r/watch",
                                  "/v1/runs/r/watch?after=",
                                  "/v1/runs/r/watch?after=-1",
                                  "/v1/runs/r/watch?after=1x",
                                  "/v1/runs/r/watch?after=10000000000",
                                  "/v1/runs/r/watch?after=99999999999999999999999",
                                  "/v1/runs/r/watch?after=1&after=1",
                                  "/v1/runs/r/watch?after=1&timeout_ms=300001",
                                  "/v1/runs/r/s/watch?after=1",
                                  "/v1/runs/.r/watch?after=1",
                                  "/v1/runs//watch?after=1"}) {
    SCOPED_TRACE(target);
    ExpectError(ErrorCode::kInvalid, [&] { ParseTarget(target); });
  }
  const std::string long_key = "/" + std::string(1025, 'a');
  ExpectError(ErrorCode::kInvalid, [&] { ParseTarget(long_key); });
}

}  // namespace
}  // namespace isthmus::relay
