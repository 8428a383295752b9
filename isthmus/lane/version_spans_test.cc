#include "isthmus/lane/version_spans.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace isthmus::lane {
namespace {

// What a record of these choices says.
std::string Says(const std::string& choices, const std::string& unit = "token",
                 const std::string& complete = "true") {
  return R"("weight_version_spans":{"exact":false,"unit":")" + unit + R"(","complete":)" +
         complete + R"(,"choices":[)" + choices + "]}";
}

std::string Span(uint64_t version, uint64_t start, uint64_t end) {
  return R"({"version":)" + std::to_string(version) + R"(,"start":)" + std::to_string(start) +
         R"(,"end":)" + std::to_string(end) + "}";
}

std::string Choice(uint64_t index, const std::string& spans) {
  return R"({"index":)" + std::to_string(index) + R"(,"spans":[)" + spans + "]}";
}

// The record of one event at version 1.
std::string After(std::string_view data) {
  VersionSpans spans(1);
  spans.Count(data);
  return spans.Member();
}

TEST(VersionSpansTest, NothingCountedIsNoChoice) { EXPECT_EQ(VersionSpans(1).Member(), Says("")); }

TEST(VersionSpansTest, SpansMeetWhereTheVersionChanged) {
  VersionSpans spans(41);
  spans.Count(R"({"choices":[{"index":0,"token_ids":[1,2,3]}]})");
  spans.Count(R"({"choices":[{"index":0,"token_ids":[4,5]}]})");
  spans.OnVersion(42);
  spans.Count(R"({"choices":[{"index":0,"token_ids":[6]}]})");
  EXPECT_EQ(spans.Member(), Says(Choice(0, Span(41, 0, 5) + "," + Span(42, 5, 6))));
}

TEST(VersionSpansTest, ChoicesAreCountedApart) {
  VersionSpans spans(41);
  spans.Count(R"({"choices":[{"index":2,"token_ids":[1]},{"index":0,"token_ids":[]}]})");
  spans.OnVersion(42);
  spans.OnVersion(43);
  spans.Count(R"({"choices":[{"index":0,"token_ids":[1,2]}]})");
  EXPECT_EQ(spans.Member(), Says(Choice(0, Span(43, 0, 2)) + "," + Choice(2, Span(41, 0, 1))));
}

TEST(VersionSpansTest, TokensAreCountedByTheBestThatThereIs) {
  const std::string three = Says(Choice(0, Span(1, 0, 3)));
  EXPECT_EQ(After(R"({"choices":[{"token_ids":[1,2,3],"logprobs":{"content":[{}]},"text":"x"}]})"),
            three);
  EXPECT_EQ(
      After(
          R"({"choices":[{"token_ids":null,"logprobs":{"content":[{},{},{}]},"delta":{"content":"x"}}]})"),
      three);
  EXPECT_EQ(
      After(R"({"choices":[{"logprobs":{"text_offset":[0],"tokens":["a","]",","]},"text":"x"}]})"),
      three);
  EXPECT_EQ(After(R"({"meta_info":{"completion_tokens":3}})"), three);
}

TEST(VersionSpansTest, TextWithoutCountsIsAChunk) {
  const std::string one = Says(Choice(0, Span(1, 0, 1)), "chunk");
  EXPECT_EQ(After(R"({"choices":[{"text":"abc","logprobs":null}]})"), one);
  EXPECT_EQ(After(R"({"choices":[{"delta":{"role":"assistant","content":"x"}}]})"), one);
  EXPECT_EQ(After(R"({"choices":[{"delta":{"reasoning_content":"x","content":null}}]})"), one);
  EXPECT_EQ(After(R"({"choices":[{"delta":{"tool_calls":[{"index":0}]}}]})"), one);
}

TEST(VersionSpansTest, EventsWithoutTextCountNothing) {
  const std::string none = Says(Choice(0, ""));
  EXPECT_EQ(After(R"({"choices":[{"text":""}]})"), none);
  EXPECT_EQ(After(R"({"choices":[{"delta":{"role":"assistant","content":"","tool_calls":[ ]}}]})"),
            none);
  EXPECT_EQ(After(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"), none);
  EXPECT_EQ(After(R"({"choices":[],"usage":{"completion_tokens":5}})"), Says(""));
}

TEST(VersionSpansTest, CumulativeCountsOnlyGrow) {
  VersionSpans spans(1);
  spans.Count(R"({"index":3,"text":"a","meta_info":{"completion_tokens":5}})");
  spans.OnVersion(2);
  spans.Count(R"({"index":3,"text":"ab","meta_info":{"completion_tokens":5}})");
  spans.Count(R"({"index":3,"text":"ab","meta_info":{"completion_tokens":4}})");
  EXPECT_EQ(spans.Member(), Says(Choice(3, Span(1, 0, 5))));
  spans.Count(R"({"index":3,"text":"abc","meta_info":{"completion_tokens":9}})");
  EXPECT_EQ(spans.Member(), Says(Choice(3, Span(1, 0, 5) + "," + Span(2, 5, 9))));
}

TEST(VersionSpansTest, ReturningToAVersionMakesASpanOfItsOwn) {
  VersionSpans spans(1);
  for (const board::VersionNumber version : {1, 2, 2, 1}) {
    spans.OnVersion(version);
    spans.Count(R"({"choices":[{"token_ids":[7]}]})");
  }
  EXPECT_EQ(spans.Member(),
            Says(Choice(0, Span(1, 0, 1) + "," + Span(2, 1, 3) + "," + Span(1, 3, 4))));
}

TEST(VersionSpansTest, ItSaysWhenAChoiceHasEnded) {
  VersionSpans spans(1);
  EXPECT_FALSE(spans.Count(R"({"choices":[{"text":"a","finish_reason":null}]})"));
  EXPECT_TRUE(spans.Count(R"({"choices":[{"text":"a"},{"text":"","finish_reason":"length"}]})"));
  EXPECT_FALSE(spans.Count(R"({"meta_info":{"finish_reason":null}})"));
  EXPECT_TRUE(spans.Count(R"({"meta_info":{"finish_reason":{"type":"stop"}}})"));
}

TEST(VersionSpansTest, WhatIsNoAnswerBringsNothing) {
  for (const char* data :
       {"", "[DONE]", "{", "null", "[]", R"({"choices":[{"text":"a"}]} x)",
        R"({"choices":{"text":"a"}})", R"({"choices":["a",5,null]})", R"({"meta_info":[5]})",
        R"({"error":{"message":"x"}})", R"({"choices":[{"text":"a"}],"x":01})"}) {
    EXPECT_EQ(After(data), Says("")) << data;
  }
}

TEST(VersionSpansTest, HostileNumbersAreNotCounted) {
  for (const char* count :
       {"-1", "1.5", "1e3", "18446744073709551615", "9007199254740993", "1e400", "\"5\"", "{}"}) {
    EXPECT_EQ(After(R"({"meta_info":{"completion_tokens":)" + std::string(count) + "}}"),
              Says(Choice(0, "")))
        << count;
  }
  EXPECT_EQ(After(R"({"choices":[{"index":-5,"token_ids":[1]},{"index":1e9,"token_ids":[1]}]})"),
            Says(Choice(0, Span(1, 0, 1)) + "," + Choice(1, Span(1, 0, 1))));
}

TEST(VersionSpansTest, ChoicesAreBounded) {
  VersionSpans spans(1);
  for (size_t i = 0; i < VersionSpans::kMaxChoices + 1; ++i) {
    spans.Count(R"({"choices":[{"index":)" + std::to_string(i) + R"(,"token_ids":[1]}]})");
  }
  const auto record = boost::json::parse("{" + spans.Member() + "}").at("weight_version_spans");
  EXPECT_EQ(record.at("choices").as_array().size(), VersionSpans::kMaxChoices);
  EXPECT_FALSE(record.at("complete").as_bool());
}

TEST(VersionSpansTest, SpansAreBoundedAndThoseThatAreThereAreTrue) {
  VersionSpans spans(1);
  for (board::VersionNumber version = 1; version <= VersionSpans::kMaxSpans + 5; ++version) {
    spans.OnVersion(version);
    spans.Count(R"({"choices":[{"token_ids":[1]}]})");
  }
  const auto record = boost::json::parse("{" + spans.Member() + "}").at("weight_version_spans");
  const auto& list = record.at("choices").at(0).at("spans").as_array();
  ASSERT_EQ(list.size(), VersionSpans::kMaxSpans);
  EXPECT_EQ(list.back().at("end").as_int64(), int64_t{VersionSpans::kMaxSpans});
  EXPECT_FALSE(record.at("complete").as_bool());
}

}  // namespace
}  // namespace isthmus::lane
