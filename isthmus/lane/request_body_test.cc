#include "isthmus/lane/request_body.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "tests/support/errors.h"
#include "tests/support/seed.h"

namespace isthmus::lane {
namespace {

namespace json = boost::json;
using testing::ExpectError;

std::string Edited(std::string_view text, std::string_view salt = "s") {
  return RequestBody(text, "cache_salt").Edited(salt);
}

void ExpectRefused(std::string_view text, const std::string& what) {
  ExpectError(
      ErrorCode::kInvalid, [&] { RequestBody(text, "cache_salt"); }, what);
}

TEST(RequestBodyTest, ABodyWithoutTheMembersAsksForNothing) {
  const RequestBody body(R"({"prompt":"x"})", "cache_salt");
  EXPECT_EQ(body.constraint(), Constraint());
  EXPECT_FALSE(body.stream());
  EXPECT_EQ(body.user_salt(), std::nullopt);
}

TEST(RequestBodyTest, TheMembersAreRead) {
  const RequestBody body(
      R"({"weight_version":{"min_version":41,"exact_version": 42 },"stream":true,"cache_salt":"\u0061b"})",
      "cache_salt");
  EXPECT_EQ(body.constraint(), (Constraint{41, 42, {}, {}, ""}));
  EXPECT_TRUE(body.stream());
  EXPECT_EQ(body.user_salt(), "ab");
}

TEST(RequestBodyTest, NullIsAsIfItWereAbsent) {
  const RequestBody body(
      R"({"weight_version":{"min_version":null,"exact_version":7},"stream":null,"cache_salt":null})",
      "cache_salt");
  EXPECT_EQ(body.constraint(), (Constraint{{}, 7, {}, {}, ""}));
  EXPECT_FALSE(body.stream());
  EXPECT_EQ(body.user_salt(), std::nullopt);
  EXPECT_EQ(RequestBody(R"({"weight_version":null})", "").constraint(), Constraint());
  EXPECT_EQ(RequestBody(R"({"weight_version":{}})", "").constraint(), Constraint());
}

TEST(RequestBodyTest, AnEmptySaltIsOne) {
  EXPECT_EQ(RequestBody(R"({"cache_salt":""})", "cache_salt").user_salt(), "");
}

TEST(RequestBodyTest, KeysCountHoweverTheyAreSpelled) {
  const std::string_view text = R"({"a":1,"\u0077eight_version":{"min\u005fversion":3}})";
  EXPECT_EQ(RequestBody(text, "").constraint().min_version, 3U);
  EXPECT_EQ(RequestBody(text, "").Edited(""), R"({"a":1})");
}

TEST(RequestBodyTest, OnlyTheOutermostObjectCounts) {
  const std::string_view text =
      R"({"x":{"weight_version":7,"stream":1,"cache_salt":2},"y":["weight_version",{"stream":"}"}]})";
  const RequestBody body(text, "cache_salt");
  EXPECT_EQ(body.constraint(), Constraint());
  EXPECT_EQ(body.Edited("s"), R"({"cache_salt":"s",)" + std::string(text.substr(1)));
}

TEST(RequestBodyTest, WrongValuesAreRefusedWithTheMembersName) {
  for (const char* number : {"-1", "-0", "1.0", "1e3", "\"41\"", "true", "[1]", "10000000000",
                             "99999999999999999999999999", "1e400"}) {
    const std::string value(number);
    ExpectRefused(R"({"weight_version":{"min_version":)" + value + "}}",
                  "weight_version.min_version: ");
    ExpectRefused(R"({"weight_version":{"exact_version":)" + value + "}}",
                  "weight_version.exact_version: ");
  }
  ExpectRefused(R"({"weight_version":41})",
                R"(weight_version: "41", allowed is an object or null)");
  ExpectRefused(R"({"weight_version":{"max_version":1}})", R"(weight_version: "\"max_version\"")");
  ExpectRefused(R"({"stream":1})", R"(stream: "1", allowed is true, false or null)");
  ExpectRefused(R"({"stream":"true"})", "stream: ");
  ExpectRefused(R"({"cache_salt":5})", R"(cache_salt: "5", allowed is a string or null)");
  ExpectRefused(R"({"cache_salt":["a"]})", "cache_salt: ");
  ExpectRefused(R"({"cache_salt":"\ud800"})", "cache_salt: ");
}

TEST(RequestBodyTest, WhatIsGivenTwiceIsRefused) {
  ExpectRefused(R"({"weight_version":null,"weight_\u0076ersion":null})",
                "weight_version: given twice");
  ExpectRefused(R"({"stream":null,"stream":true})", "stream: given twice");
  ExpectRefused(R"({"cache_salt":null,"cache_salt":"a"})", "cache_salt: given twice");
  ExpectRefused(R"({"weight_version":{"min_version":null,"min_version":1}})",
                "weight_version.min_version: given twice");
  EXPECT_NO_THROW(RequestBody(R"({"a":1,"a":2})", "cache_salt"));
}

TEST(RequestBodyTest, WhatIsNoJsonObjectIsRefused) {
  ExpectRefused("", "body: JSON: byte 0: the text ends, allowed is an object");
  ExpectRefused("[]", "body: JSON: byte 0: found \"[\", allowed is an object");
  ExpectRefused("{} x", "body: JSON: byte 3: found \"x\", allowed is the end");
  ExpectRefused(R"({"a":nan})", "body: JSON: byte 5: ");
  ExpectRefused("\xef\xbb\xbf{}", "body: JSON: byte 0: ");
  ExpectRefused("{\"a\":\"\xc3\x28\"}", "body: not UTF-8");
  ExpectRefused("{\"a\":" + std::string(2'000, '[') + std::string(2'000, ']') + "}",
                "body: JSON: ");
  const std::string_view text = R"({"a":[1,{"b":null}],"weight_version":{"min_version":1}})";
  for (size_t size = 0; size < text.size(); ++size)
    ExpectRefused(text.substr(0, size), "body: JSON: ");
}

TEST(RequestBodyTest, ATextThatIsNoJsonIsSaidToBeSoWhateverItsMembers) {
  ExpectRefused(R"({"stream":5,)", "body: JSON: byte 12");
}

TEST(RequestBodyTest, WeightVersionGoesWithOneComma) {
  const auto without = [](std::string_view text) { return RequestBody(text, "").Edited(""); };
  EXPECT_EQ(without(R"({"weight_version":null})"), "{}");
  EXPECT_EQ(without("{ \"weight_version\" : { } \n}"), "{  \n}");
  EXPECT_EQ(without(R"({"weight_version":{},"a":1})"), R"({"a":1})");
  EXPECT_EQ(without("{ \"weight_version\":{}\n, \"a\":1 }"), "{ \"a\":1 }");
  EXPECT_EQ(without(R"({"a":1,"weight_version":{}})"), R"({"a":1})");
  EXPECT_EQ(without("{\"a\":1 ,\t\"weight_version\" : {} }"), R"({"a":1 })");
  EXPECT_EQ(without(R"({"a":1 , "weight_version":{} , "b":2})"), R"({"a":1 , "b":2})");
}

TEST(RequestBodyTest, TheSaltIsPutInOrReplaced) {
  EXPECT_EQ(Edited("{}"), R"({"cache_salt":"s"})");
  EXPECT_EQ(Edited(" { } "), R"( {"cache_salt":"s" } )");
  EXPECT_EQ(Edited(R"({"a":1})"), R"({"cache_salt":"s","a":1})");
  EXPECT_EQ(Edited(R"({"a":1, "cache_salt" : "mine" })"), R"({"a":1, "cache_salt" : "s" })");
  EXPECT_EQ(Edited(R"({"cache_salt":null})"), R"({"cache_salt":"s"})");
}

TEST(RequestBodyTest, BothEditsGoTogetherInEveryOrder) {
  EXPECT_EQ(Edited(R"({"weight_version":{}})"), R"({"cache_salt":"s"})");
  EXPECT_EQ(Edited(R"({"weight_version":{},"a":1})"), R"({"cache_salt":"s","a":1})");
  EXPECT_EQ(Edited(R"({"a":1,"weight_version":{}})"), R"({"cache_salt":"s","a":1})");
  EXPECT_EQ(Edited(R"({"weight_version":{},"cache_salt":"x"})"), R"({"cache_salt":"s"})");
  EXPECT_EQ(Edited(R"({"cache_salt":"x","weight_version":{}})"), R"({"cache_salt":"s"})");
  EXPECT_EQ(Edited(R"({"cache_salt":"x","a":1,"weight_version":{}})"),
            R"({"cache_salt":"s","a":1})");
}

TEST(RequestBodyTest, AnEngineWithoutASaltGetsNone) {
  const std::string_view text = R"({"":1,"cache_salt":5})";
  EXPECT_EQ(RequestBody(text, "").Edited("s"), text);
}

TEST(RequestBodyTest, EverythingElseStaysByteForByte) {
  const std::string rest =
      R"("a" : 1e400,"b":123456789012345678901234567890.10, "c":"\u00e9é\/","d":[ 1 ,2]})";
  EXPECT_EQ(Edited(R"({"weight_version":{"min_version":1},)" + rest),
            R"({"cache_salt":"s",)" + rest);
}

// A random object with the members in random places, and white space.
class RandomBody {
 public:
  explicit RandomBody(uint32_t seed) : random_(seed) {}

  std::string Draw() {
    std::vector<std::string> members;
    for (size_t i = random_() % 4; i > 0; --i)
      members.push_back("\"m" + std::to_string(i) + "\"" + Space() + ":" + Space() + Value());
    if (random_() % 2 == 0)
      Insert(R"("weight_version")" + Space() + ":" + Space() + "{" + Space() + "}", &members);
    if (random_() % 2 == 0) Insert(R"("cache_salt":)" + Space() + R"("u,}{\"")", &members);
    std::string text = Space() + "{" + Space();
    for (size_t i = 0; i < members.size(); ++i)
      text += (i == 0 ? "" : "," + Space()) + members[i] + Space();
    return text + "}" + Space();
  }

 private:
  std::string Space() { return std::string(random_() % 3, " \t\r\n"[random_() % 4]); }
  std::string Value() {
    const std::vector<std::string> values = {"1.50", "\"},{\"", "[{\"weight_version\":1},2]",
                                             "null", R"("\\")"};
    return values[random_() % values.size()];
  }
  void Insert(const std::string& member, std::vector<std::string>* members) {
    members->insert(members->begin() + static_cast<ptrdiff_t>(random_() % (members->size() + 1)),
                    member);
  }

  std::mt19937 random_;
};

TEST(RequestBodyTest, AnEditedBodySaysTheSameButForTheTwoMembers) {
  RandomBody bodies(testing::TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = bodies.Draw();
    json::object expected = json::parse(text).as_object();
    expected.erase("weight_version");
    expected["cache_salt"] = "s";
    ASSERT_EQ(json::parse(Edited(text)), expected) << text;
    ASSERT_EQ(Edited(Edited(text)), Edited(text)) << text;
  }
}

}  // namespace
}  // namespace isthmus::lane
