#include "isthmus/lane/json_text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/seed.h"

namespace isthmus::lane {
namespace {

using testing::ExpectError;

// What the reader takes `text` for: all of it as one value.
std::string_view Whole(std::string_view text) {
  JsonReader reader(text);
  const std::string_view value = reader.Value();
  reader.End();
  return value;
}

bool IsJson(std::string_view text) {
  try {
    Whole(text);
    return true;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalid);
    return false;
  }
}

void ExpectRefused(std::string_view text, const std::string& what) {
  ExpectError(
      ErrorCode::kInvalid, [&] { Whole(text); }, what);
}

TEST(JsonTextTest, AValueIsTheBytesThatSpellIt) {
  for (const char* text :
       {"0", "-0", "1.50e+007", "1e400", "12345678901234567890123456789012345", "true", "false",
        "null", R"("")", R"("a\"b\\")", R"("\u0000\uD800")", "[]", "{}", "[ ]", "{ }",
        R"([1,"]",{"a":[{}]}])", R"({"a" : 1 , "a":2})"}) {
    EXPECT_EQ(Whole(text), text);
    EXPECT_EQ(Whole(" \t\r\n" + std::string(text) + " \n"), text);
  }
}

TEST(JsonTextTest, WhatIsNoJsonIsRefusedWithItsPlace) {
  ExpectRefused("", "byte 0: the text ends, allowed is a value");
  ExpectRefused("[1,]", "byte 3: found \"]\", allowed is a value");
  ExpectRefused("[1 2]", "byte 3: found \"2\", allowed is ',' or ']'");
  ExpectRefused(R"({"a":1,})", "byte 7: found \"}\", allowed is a key in quotes");
  ExpectRefused(R"({"a" 1})", "byte 5: found \"1\", allowed is ':'");
  ExpectRefused(R"({"a":1])", "byte 6: found \"]\", allowed is ',' or '}'");
  ExpectRefused("{a:1}", "byte 1: found \"a\", allowed is a key in quotes");
  ExpectRefused("1 x", "byte 2: found \"x\", allowed is the end");
  ExpectRefused("\"a\nb\"", "byte 2: found \"\\n\", allowed is an escape for a control character");
  ExpectRefused(R"("\x")", "byte 2: found \"x\", allowed is one of");
  ExpectRefused(R"("\u12g4")", "byte 5: found \"g\", allowed is a hexadecimal digit");
  ExpectRefused("\xef\xbb\xbf{}", "byte 0: found \"\\xef\"");
}

TEST(JsonTextTest, LooseSpellingsAreRefused) {
  for (const char* text : {"01",
                           "-",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "1e+",
                           "0x1",
                           "NaN",
                           "Infinity",
                           "-Infinity",
                           "nul",
                           "nulls",
                           "True",
                           "'a'",
                           "[",
                           "{",
                           "]",
                           "[1",
                           R"({"a")",
                           R"({"a":)",
                           R"("a)",
                           R"("\)",
                           R"("\u1)",
                           "[[]",
                           "{}}",
                           "{} {}",
                           "/**/1",
                           "[1]//",
                           R"({1:2})",
                           R"({"a":1 "b":2})"}) {
    EXPECT_FALSE(IsJson(text)) << text;
  }
  EXPECT_FALSE(IsJson(std::string_view("1\0", 2)));
}

TEST(JsonTextTest, NestingIsBounded) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + "1" + std::string(depth, ']');
  };
  EXPECT_TRUE(IsJson(nested(kMaxJsonDepth)));
  ExpectRefused(nested(kMaxJsonDepth + 1), "allowed is a nesting of at most 1024");
  ExpectRefused(std::string(1'000'000, '['), "byte 1024: ");
}

TEST(JsonTextTest, TheEndOfAStringIsFoundWhereverItStands) {
  for (size_t size = 0; size < 40; ++size) {
    for (size_t at = 0; at <= size; ++at) {
      std::string text = "\"" + std::string(size, '\x7f') + "\xc3\xa9\"";
      text.insert(1 + at, R"(\")");
      EXPECT_EQ(Whole(text + ' '), text);
      text[1 + at] = '\x1f';
      EXPECT_FALSE(IsJson(text));
    }
  }
}

TEST(JsonTextTest, MembersAndElementsAreVisitedInOrder) {
  std::vector<std::string> seen;
  const auto see = [&](std::string_view key, std::string_view value) {
    seen.push_back(std::string(key) + std::string(value));
  };
  JsonReader(R"( { "a" : [1, 2] , "b":{},"a":1e400})").Members(see);
  EXPECT_EQ(seen, (std::vector<std::string>{R"("a"[1, 2])", R"("b"{})", R"("a"1e400)"}));
  seen.clear();
  JsonReader("[1, [] ,\"x\"]").Elements([&](std::string_view value) { seen.emplace_back(value); });
  EXPECT_EQ(seen, (std::vector<std::string>{"1", "[]", "\"x\""}));
  JsonReader(" {} ").Members([](auto...) { ADD_FAILURE(); });
  JsonReader(" [ ] ").Elements([](auto...) { ADD_FAILURE(); });
}

TEST(JsonTextTest, StringsAreDecoded) {
  EXPECT_EQ(DecodeJsonString(R"("a\"\\\/\b\f\n\r\t")"), "a\"\\/\b\f\n\r\t");
  EXPECT_EQ(DecodeJsonString(R"("\u0041\u00e9\u20AC\ud83d\ude00")"), "A\u00e9\u20ac\U0001f600");
  EXPECT_EQ(DecodeJsonString(R"("\u0000")"), std::string(1, '\0'));
  for (const char* half : {R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")", R"("\ud800x")",
                           R"("\ud800\ud800")", R"("\ud800\n")"}) {
    EXPECT_EQ(DecodeJsonString(half), std::nullopt) << half;
  }
}

TEST(JsonTextTest, WhatNoReaderCheckedIsDecodedSafely) {
  for (const char* broken : {R"("\")", R"("\u")", R"("\u12")", R"("\u12g4")", R"("\ud800\u")",
                             R"("\u-001")", R"("\u0x41")"}) {
    EXPECT_EQ(DecodeJsonString(broken), std::nullopt) << broken;
  }
}

TEST(JsonTextTest, KeysAreComparedAsWhatTheySpell) {
  EXPECT_TRUE(JsonStringIs(R"("stream")", "stream"));
  EXPECT_TRUE(JsonStringIs(R"("\u0073tream")", "stream"));
  EXPECT_TRUE(JsonStringIs(R"("\u0073\u0074\u0072\u0065\u0061\u006d")", "stream"));
  EXPECT_FALSE(JsonStringIs(R"("streams")", "stream"));
  EXPECT_FALSE(JsonStringIs(R"("Stream")", "stream"));
  EXPECT_FALSE(JsonStringIs(R"("stream\u0000")", "stream"));
  EXPECT_FALSE(JsonStringIs(R"("\ud800eam")", "stream"));
  EXPECT_FALSE(JsonStringIs(R"("")", "stream"));
}

// Where Boost.JSON takes a text, the reader does, and the other way round but for what Boost.JSON
// makes no value of: texts here have no such numbers or half pairs.
TEST(JsonTextTest, RandomTextsAreJsonHereIfTheyAreForBoostJson) {
  std::mt19937 random(testing::TestSeed());
  const std::vector<std::string> parts = {"{",  "}",   "[",     "]",      ",",  ":",       "\"a\"",
                                          "1",  "-0",  "2.5e1", " ",      "\n", "\"\\n\"", "true",
                                          "\"", "nul", "null",  "\"k\":", "e1", "."};
  for (int i = 0; i < 200'000; ++i) {
    std::string text;
    for (size_t length = random() % 9; length > 0; --length) text += parts[random() % parts.size()];
    boost::system::error_code error;
    boost::json::parse(text, error);
    ASSERT_EQ(IsJson(text), !error) << text;
  }
}

}  // namespace
}  // namespace isthmus::lane
