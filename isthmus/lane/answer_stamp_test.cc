#include "isthmus/lane/answer_stamp.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "tests/support/cuts.h"
#include "tests/support/seed.h"

namespace isthmus::lane {
namespace {

namespace json = boost::json;
using testing::AllCuts;
using testing::Cut;
using testing::InDrawnPieces;

constexpr std::string_view kMembers = R"("s":41,"e":42)";

std::string Joined(const AnswerStamp::Pieces& pieces) {
  std::string joined;
  for (const std::string_view piece : pieces) joined.append(piece);
  return joined;
}

size_t TotalOf(const Cut& cut) {
  size_t total = 0;
  for (const std::string_view piece : cut) total += piece.size();
  return total;
}

// What leaves; checks the promise of a length on the way. `together`: what the last piece and the
// end give is looked at when both are there.
std::string Stamped(AnswerShape shape, const Cut& cut, bool together = false) {
  const auto stamp = MakeAnswerStamp(shape, std::string(kMembers));
  std::string out;
  size_t fed = 0;
  std::optional<size_t> promised;
  const auto take = [&](const AnswerStamp::Pieces& pieces) {
    out += Joined(pieces);
    if (promised) {
      EXPECT_EQ(stamp->inserted_bytes(), promised);
    }
    promised = stamp->inserted_bytes();
  };
  AnswerStamp::Pieces pieces;
  for (const std::string_view piece : cut) {
    pieces.clear();
    stamp->Feed(piece, &pieces);
    fed += piece.size();
    if (together && fed == TotalOf(cut)) break;
    take(pieces);
    pieces.clear();
  }
  stamp->Finish(&pieces);
  take(pieces);
  if (promised) {
    EXPECT_EQ(out.size(), fed + *promised);
  }
  return out;
}

void ExpectStamped(AnswerShape shape, std::string_view text, std::string_view expected) {
  for (const Cut& cut : AllCuts(text)) {
    ASSERT_EQ(Stamped(shape, cut), expected) << text << " cut at " << cut.front().size();
    ASSERT_EQ(Stamped(shape, cut, true), expected) << text << " cut at " << cut.front().size();
  }
}

void ExpectObject(std::string_view text, std::string_view expected) {
  ExpectStamped(AnswerShape::kObject, text, expected);
}

void ExpectMetaInfo(std::string_view text, std::string_view expected) {
  ExpectStamped(AnswerShape::kMetaInfo, text, expected);
}

const std::string kPadding(kMembers.size() + 1, ' ');

TEST(AnswerStampTest, MembersAreTheTwoVersionsAndTheSpans) {
  EXPECT_EQ(StampMembers(41, 42), R"("weight_version_start":41,"weight_version_end":42)");
  EXPECT_EQ(StampMembers(1, 9'999'999'999, R"("x":[])"),
            R"("weight_version_start":1,"weight_version_end":9999999999,"x":[])");
}

TEST(ObjectStampTest, MembersGoInFrontOfTheLastBrace) {
  ExpectObject(R"({"a":{"b":"}"}})", R"({"a":{"b":"}"},"s":41,"e":42})");
  ExpectObject(" {\"a\":1e400 } \r\n", " {\"a\":1e400 ,\"s\":41,\"e\":42} \r\n");
  ExpectObject(R"({"a":"}}}"})", R"({"a":"}}}","s":41,"e":42})");
  ExpectObject("{\"é\":[{}]\n}", "{\"é\":[{}]\n,\"s\":41,\"e\":42}");
}

TEST(ObjectStampTest, AnEmptyObjectGetsASpaceForTheComma) {
  ExpectObject("{}", R"({ "s":41,"e":42})");
  ExpectObject(" { } ", R"( {  "s":41,"e":42} )");
}

TEST(ObjectStampTest, WhatIsNoObjectPassesAsItIs) {
  for (const char* text : {"", " ", "[]", "[{}]", "null", "\"{}\"", "}", "}{}", "<html>{}",
                           "\xef\xbb\xbf{}", "data: {}"}) {
    ExpectObject(text, text);
  }
}

TEST(ObjectStampTest, WhatBeginsAsAnObjectOnlyKeepsThePromisedLength) {
  for (const char* text : {"{", "{ ", R"({"a":1)", "{} x", R"({"a":1}])", "{}x"}) {
    ExpectObject(text, text + kPadding);
  }
}

TEST(ObjectStampTest, GarbageIsStampedAlikeHoweverItIsCut) {
  ExpectObject("{}}%}", R"({}}% "s":41,"e":42})");
  ExpectObject("{x}}", R"({x},"s":41,"e":42})");
}

TEST(ObjectStampTest, PiecesPassWithoutBeingCopied) {
  ObjectStamp stamp("\"x\":1");
  const std::string piece = R"({"a":[1,2,3],)" + std::string(1'000, ' ') + R"("b":2)";
  AnswerStamp::Pieces pieces;
  stamp.Feed(piece, &pieces);
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0].data(), piece.data());
  EXPECT_EQ(pieces[0].size(), piece.size());
}

TEST(ObjectStampTest, HoldsNoMoreThanItsBound) {
  const std::string space(AnswerStamp::kMaxHeldBytes, '\n');
  const std::string text = R"({"a":1})";
  EXPECT_EQ(Stamped(AnswerShape::kObject, {text, space.substr(1)}),
            R"({"a":1,"s":41,"e":42})" + space.substr(1));
  EXPECT_EQ(Stamped(AnswerShape::kObject, {text, space}), text + space + kPadding);
  EXPECT_EQ(Stamped(AnswerShape::kObject, {text + space}), text + space + kPadding);
  EXPECT_EQ(Stamped(AnswerShape::kObject, {space, text}), space + R"({"a":1,"s":41,"e":42})");
  EXPECT_EQ(Stamped(AnswerShape::kObject, {space, " ", text}), space + " " + text);
}

TEST(ObjectStampTest, TheLengthIsKnownWithTheFirstByteThatIsNoSpace) {
  ObjectStamp stamp("\"x\":1");
  AnswerStamp::Pieces pieces;
  EXPECT_EQ(stamp.inserted_bytes(), std::nullopt);
  stamp.Feed(" \n", &pieces);
  EXPECT_EQ(stamp.inserted_bytes(), std::nullopt);
  stamp.Feed("{", &pieces);
  EXPECT_EQ(stamp.inserted_bytes(), 6U);
}

TEST(MetaInfoStampTest, MembersGoFirstInMetaInfo) {
  ExpectMetaInfo(R"({"text":"a","meta_info":{"id":"x"}})",
                 R"({"text":"a","meta_info":{"s":41,"e":42,"id":"x"}})");
  ExpectMetaInfo(R"({ "meta_info" : { } , "b":1 })",
                 R"({ "meta_info" : { "s":41,"e":42} , "b":1 })");
  ExpectMetaInfo("{\"meta_info\":{ \"id\":1e400}}\n",
                 "{\"meta_info\":{ \"s\":41,\"e\":42,\"id\":1e400}}\n");
}

TEST(MetaInfoStampTest, EachRecordOfABatchIsStamped) {
  ExpectMetaInfo(
      R"([{"meta_info":{}},{"a":[1,{"x":2}],"meta_info":{"i":1}}, 5, [], {}])",
      R"([{"meta_info":{"s":41,"e":42}},{"a":[1,{"x":2}],"meta_info":{"s":41,"e":42,"i":1}}, 5, [], {}])");
}

TEST(MetaInfoStampTest, OnlyTheMembersOfRecordsCount) {
  for (const char* text :
       {R"({"a":{"meta_info":{"x":1}}})", R"({"a":[{"meta_info":{"x":1}}]})",
        R"([[{"meta_info":{"x":1}}]])", R"([{"a":{"meta_info":{}}}])",
        R"({"a":"meta_info","b":{}})", R"({"meta_info":"meta_info","x":{}})",
        R"({"meta_info":[{}]})", R"({"meta_info":null})", R"({"meta_info":7,"b":{"c":1}})",
        R"({"meta_inf":{"c":1},"meta_info2":{}})", R"({"x\"meta_info":{}})",
        R"({"meta_info\\":{}})", R"({"a":"\"meta_info\":{"})", R"(["meta_info",{}])",
        R"({"Meta_info":{}})"}) {
    ExpectMetaInfo(text, text);
  }
}

TEST(MetaInfoStampTest, TheKeyCountsHoweverItIsSpelled) {
  ExpectMetaInfo(R"({"\u006deta_info":{"a":1}})", R"({"\u006deta_info":{"s":41,"e":42,"a":1}})");
  ExpectMetaInfo(R"({"\u006d\u0065\u0074\u0061\u005f\u0069\u006e\u0066\u006F":{}})",
                 R"({"\u006d\u0065\u0074\u0061\u005f\u0069\u006e\u0066\u006F":{"s":41,"e":42}})");
}

TEST(MetaInfoStampTest, StringsAreSkippedWithTheirEscapes) {
  ExpectMetaInfo(R"({"a":"}\\","b":"\\\"{[","\\":1,"meta_info":{"x":"{\\\\"}})",
                 R"({"a":"}\\","b":"\\\"{[","\\":1,"meta_info":{"s":41,"e":42,"x":"{\\\\"}})");
}

TEST(MetaInfoStampTest, WhatIsNoJsonPasses) {
  for (const char* text : {"", " ", "null", "\"meta_info\":{}", "<html>{\"meta_info\":{}}", "}",
                           "]}{", R"({}{"meta_info":{}})", R"({"\u00":{}})", R"({"\ud8":{}})",
                           "{]{", R"({"meta_info":{)", R"({"meta_info)", "[[[[", R"({"a":"\)"}) {
    ExpectMetaInfo(text, text);
  }
}

TEST(MetaInfoStampTest, ItsLengthIsNeverKnown) {
  MetaInfoStamp stamp("\"x\":1");
  AnswerStamp::Pieces pieces;
  stamp.Feed(R"({"meta_info":{}})", &pieces);
  EXPECT_EQ(stamp.inserted_bytes(), std::nullopt);
}

TEST(MetaInfoStampTest, MemoryDoesNotGrowWithTheAnswer) {
  const std::string key(1'000'000, 'k');
  const std::string text = "{\"" + key + "\":" + std::string(1'000'000, '[');
  EXPECT_EQ(Stamped(AnswerShape::kMetaInfo, {text}), text);
}

// Random JSON with many chances to take one thing for another.
class RandomJson {
 public:
  explicit RandomJson(uint32_t seed) : random_(seed) {}

  std::mt19937* random() { return &random_; }

  std::string Object(int depth) {
    std::string text = "{" + Space();
    const size_t count = random_() % 4;
    for (size_t i = 0; i < count; ++i) {
      // Keys differ, so that Boost.JSON keeps all members.
      const std::string key =
          i == 1 ? MetaKey() : Quoted(std::to_string(i) + Any({"", "a", "{", "\\\"", "\\\\"}));
      text += key + Space() + ":" + Space() + Value(depth - 1) + Space();
      if (i + 1 < count) text += "," + Space();
    }
    return text + "}";
  }
  std::string Value(int depth) {
    if (depth > 0 && random_() % 2 == 0) return random_() % 3 == 0 ? List(depth) : Object(depth);
    return Any({"1", "-2.50", "null", "true", "\"\"", R"("\\")", R"("}{\"")", R"("meta_info")",
                "{}", "[]", "{ }"});
  }
  std::string List(int depth) {
    std::string text = "[";
    const size_t count = random_() % 4;
    for (size_t i = 0; i < count; ++i) {
      text += Space() + Value(depth - 1) + Space() + (i + 1 < count ? "," : "");
    }
    return text + "]";
  }
  std::string Space() {
    return std::string(random_() % 4 == 0 ? 1 + random_() % 2 : 0, " \t\r\n"[random_() % 4]);
  }

 private:
  static std::string Quoted(const std::string& text) { return '"' + text + '"'; }
  std::string Any(const std::vector<std::string>& choices) {
    return choices[random_() % choices.size()];
  }
  std::string MetaKey() {
    return Any({R"("meta_info")", R"("meta_info")", R"("\u006deta_info")", R"("meta_inf")"});
  }

  std::mt19937 random_;
};

// `record` with the members in meta_info, if it is an object that has one.
void StampRecord(json::value* record) {
  json::object* const object = record->if_object();
  json::value* const meta_info = object != nullptr ? object->if_contains("meta_info") : nullptr;
  if (meta_info == nullptr || !meta_info->is_object()) return;
  meta_info->as_object()["s"] = 41;
  meta_info->as_object()["e"] = 42;
}

// Without every occurrence of the members, and the byte that separates them from others.
std::string Without(std::string text, AnswerShape shape) {
  for (size_t at = text.find(kMembers); at != text.npos; at = text.find(kMembers)) {
    const bool comma = text[at + kMembers.size()] == ',';
    const bool before = shape == AnswerShape::kObject;
    text.erase(before ? at - 1 : at, kMembers.size() + (before || comma ? 1 : 0));
  }
  return text;
}

TEST(AnswerStampTest, StampedAnswersSayTheSameAndTheMembers) {
  RandomJson draw(testing::TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = draw.Space() + draw.Object(4) + draw.Space();
    const std::string stamped =
        Stamped(AnswerShape::kObject, InDrawnPieces(9, text, draw.random()));
    json::object expected = json::parse(text).as_object();
    expected["s"] = 41;
    expected["e"] = 42;
    ASSERT_EQ(json::parse(stamped), expected) << text;
    ASSERT_EQ(Without(stamped, AnswerShape::kObject), text);
  }
}

TEST(AnswerStampTest, StampedMetaInfosSayTheSameAndTheMembers) {
  RandomJson draw(testing::TestSeed());
  for (int i = 0; i < 20'000; ++i) {
    const std::string text =
        draw.Space() + (i % 2 == 0 ? draw.Object(4) : draw.List(5)) + draw.Space();
    const std::string stamped =
        Stamped(AnswerShape::kMetaInfo, InDrawnPieces(9, text, draw.random()));
    json::value expected = json::parse(text);
    StampRecord(&expected);
    if (expected.is_array()) {
      for (json::value& record : expected.as_array()) StampRecord(&record);
    }
    ASSERT_EQ(json::parse(stamped), expected) << text;
    ASSERT_EQ(Without(stamped, AnswerShape::kMetaInfo), text);
  }
}

}  // namespace
}  // namespace isthmus::lane
