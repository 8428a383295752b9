#include "isthmus/relay/fresh_values.h"

#include <gtest/gtest.h>

namespace isthmus::relay {
namespace {

using std::chrono::milliseconds;

const MonotonicTime kStart = MonotonicTime() + std::chrono::seconds(1000);

Answer Text(std::string text) {
  return {false, text.size(), std::make_shared<const std::string>(std::move(text))};
}

TEST(FreshValuesTest, AnAnswerCountsForAShortWhileAfterItsQuestion) {
  FreshValues values(milliseconds(1000));
  values.Put(Question::kContent, "a", Text("x"), kStart);
  ASSERT_NE(values.Find(Question::kContent, "a", kStart + milliseconds(999)), nullptr);
  EXPECT_EQ(*values.Find(Question::kContent, "a", kStart)->content, "x");
  EXPECT_EQ(values.Find(Question::kContent, "a", kStart + milliseconds(1000)), nullptr);
  EXPECT_EQ(values.Find(Question::kSize, "a", kStart), nullptr);
  values.Put(Question::kContent, "a", Text("y"), kStart + milliseconds(1500));
  EXPECT_EQ(*values.Find(Question::kContent, "a", kStart + milliseconds(2000))->content, "y");
  EXPECT_EQ(values.size(), 1u);
}

TEST(FreshValuesTest, WhatIsNewsAboutARunIsForgottenWhereverItStands) {
  FreshValues values(milliseconds(1000));
  const auto put = [&](Question question, const char* key) {
    values.Put(question, key, {.missing = true}, kStart);
  };
  put(Question::kSize, "runs/r/log/2");
  put(Question::kContent, "runs/r/head.json");
  for (const char* prefix : {"", "runs/", "runs/r", "runs/r/", "runs/r/log/"}) {
    put(Question::kList, prefix);
  }
  put(Question::kSize, "runs/other/log/2");
  put(Question::kList, "runs/other/");
  put(Question::kSize, "runs/");
  values.ForgetUnder("runs/r/");
  EXPECT_EQ(values.size(), 3u);
  EXPECT_NE(values.Find(Question::kList, "runs/other/", kStart), nullptr);
}

TEST(FreshValuesTest, OneKeyIsForgottenWithAllThatIsKnownOfIt) {
  FreshValues values(milliseconds(1000));
  values.Put(Question::kSize, "a", {}, kStart);
  values.Put(Question::kContent, "a", Text("x"), kStart);
  values.Put(Question::kSize, "ab", {}, kStart);
  values.Forget("a");
  EXPECT_EQ(values.size(), 1u);
}

TEST(FreshValuesTest, NumberAndBytesAreBounded) {
  FreshValues values(milliseconds(1000));
  for (size_t i = 0; i < 2 * FreshValues::kMaxValues; ++i) {
    values.Put(Question::kSize, std::to_string(i), {.missing = true}, kStart);
    ASSERT_LE(values.size(), FreshValues::kMaxValues);
  }
  const std::string large(FreshValues::kMaxBytes / 4, 'x');
  for (int i = 0; i < 16; ++i) {
    values.Put(Question::kContent, "large" + std::to_string(i), Text(large), kStart);
    ASSERT_NE(values.Find(Question::kContent, "large" + std::to_string(i), kStart), nullptr);
  }
  EXPECT_LE(values.size(), 4u);
  values.Put(Question::kContent, "larger", Text(std::string(FreshValues::kMaxBytes, 'x')), kStart);
  EXPECT_EQ(values.Find(Question::kContent, "larger", kStart), nullptr);
}

}  // namespace
}  // namespace isthmus::relay
