#include "isthmus/relay/selection.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace isthmus::relay {
namespace {

constexpr std::string_view kTag = "\"abc\"";

using Fields = std::vector<std::pair<std::string, std::string>>;
using Found = std::tuple<int, uint64_t, uint64_t>;

Found Of(const Fields& fields, uint64_t size = 10, std::string_view method = "GET") {
  net::RequestHead request;
  request.method = method;
  for (const auto& [name, value] : fields) request.headers.Add(name, value);
  const Selection selection = Select(request, size, kTag);
  return {selection.status, selection.first, selection.bytes};
}
Found OfRange(const std::string& range, uint64_t size = 10) { return Of({{"Range", range}}, size); }

const Found kWhole = {200, 0, 10};

TEST(SelectionTest, WithoutConditionsItIsTheWholeObject) {
  EXPECT_EQ(Of({}), kWhole);
  EXPECT_EQ(Of({}, 0), Found(200, 0, 0));
}

TEST(SelectionTest, OneRangeIsAPart) {
  EXPECT_EQ(OfRange("bytes=0-0"), Found(206, 0, 1));
  EXPECT_EQ(OfRange("bytes=3-6"), Found(206, 3, 4));
  EXPECT_EQ(OfRange("bytes=3-"), Found(206, 3, 7));
  EXPECT_EQ(OfRange("bytes=-3"), Found(206, 7, 3));
  EXPECT_EQ(OfRange("bytes=-99"), Found(206, 0, 10));
  EXPECT_EQ(OfRange("Bytes= 9-99"), Found(206, 9, 1));
  EXPECT_EQ(OfRange("bytes=0-99999999999999999999999999"), Found(206, 0, 10));
  EXPECT_EQ(OfRange("bytes=1-", 0xFFFFFFFFFFFFFFFF), Found(206, 1, 0xFFFFFFFFFFFFFFFE));
}

TEST(SelectionTest, ARangeBehindTheEndCannotBeGiven) {
  const Found none = {416, 0, 0};
  EXPECT_EQ(OfRange("bytes=10-"), none);
  EXPECT_EQ(OfRange("bytes=10-11"), none);
  EXPECT_EQ(OfRange("bytes=99999999999999999999999999-"), none);
  EXPECT_EQ(OfRange("bytes=-0"), none);
  EXPECT_EQ(OfRange("bytes=0-", 0), none);
  EXPECT_EQ(OfRange("bytes=-1", 0), none);
}

TEST(SelectionTest, WhatIsNoSingleRangeIsIgnored) {
  for (const char* range :
       {"bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes=1-2,4-5", "bytes=1-2-3", "bytes=--1",
        "bytes=+1-2", "bytes=0x1-2", "items=1-2", "1-2", "bytes 1-2", "bytes=1 - 2"}) {
    EXPECT_EQ(OfRange(range), kWhole) << range;
  }
  EXPECT_EQ(Of({{"Range", "bytes=1-2"}, {"Range", "bytes=1-2"}}), kWhole);
  EXPECT_EQ(Of({{"Range", "bytes=1-2"}}, 10, "HEAD"), kWhole);
}

TEST(SelectionTest, IfRangeMustNameTheTagExactly) {
  EXPECT_EQ(Of({{"Range", "bytes=1-2"}, {"If-Range", "\"abc\""}}), Found(206, 1, 2));
  for (const char* other : {"\"abd\"", "W/\"abc\"", "abc", "Mon, 30 Nov 2026 04:00:00 GMT", ""}) {
    EXPECT_EQ(Of({{"Range", "bytes=1-2"}, {"If-Range", other}}), kWhole) << other;
  }
}

TEST(SelectionTest, WhoHasTheObjectGetsNothing) {
  const Found same = {304, 0, 0};
  for (const char* tags :
       {"\"abc\"", "W/\"abc\"", "*", "\"x\", \"abc\"", "\"x\",W/\"abc\",\"y\""}) {
    EXPECT_EQ(Of({{"If-None-Match", tags}}), same) << tags;
    EXPECT_EQ(Of({{"If-None-Match", tags}, {"Range", "bytes=1-2"}}), same) << tags;
  }
  EXPECT_EQ(Of({{"If-None-Match", "\"x\""}, {"If-None-Match", "\"abc\""}}), same);
  EXPECT_EQ(Of({{"If-None-Match", "\"abc\""}}, 10, "HEAD"), same);
  for (const char* tags : {"\"x\"", "abc", "\"abcd\"", "", ",", ",,\"x\","}) {
    EXPECT_EQ(Of({{"If-None-Match", tags}}), kWhole) << tags;
  }
}

TEST(SelectionTest, WhoWantsAnotherStateOfTheObjectGetsNoneOfThis) {
  EXPECT_EQ(Of({{"If-Match", "\"abc\""}}), kWhole);
  EXPECT_EQ(Of({{"If-Match", "*"}}), kWhole);
  EXPECT_EQ(Of({{"If-Match", "\"x\", \"abc\""}, {"Range", "bytes=1-2"}}), Found(206, 1, 2));
  for (const char* tags : {"\"x\"", "W/\"abc\"", "abc", ""}) {
    EXPECT_EQ(Of({{"If-Match", tags}, {"Range", "bytes=1-2"}}), Found(412, 0, 0)) << tags;
  }
}

}  // namespace
}  // namespace isthmus::relay
