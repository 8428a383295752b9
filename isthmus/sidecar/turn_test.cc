#include "isthmus/sidecar/turn.h"

#include <gtest/gtest.h>

namespace isthmus::sidecar {
namespace {

using lane::AnswerShape;
using lane::RouteKind;

constexpr Route kCompletions = {RouteKind::kGenerate, AnswerShape::kObject, false};
constexpr Route kGenerate = {RouteKind::kGenerate, AnswerShape::kMetaInfo, true};

Stamp Crossing() { return {41, 42, {{{41, 42, {}, {}}}, true}}; }

net::ResponseHead HeadOf(int status, std::string_view type, size_t length) {
  net::ResponseHead head;
  head.status = status;
  head.headers.Add("Content-Type", type);
  head.headers.Add("Content-Length", std::to_string(length));
  return head;
}

// The body as it leaves, and in `length` the Content-Length that is announced.
std::string Pass(const Route& route, bool spans, int status, std::string_view body,
                 std::optional<std::string>* length) {
  const net::ResponseHead head = HeadOf(status, "application/json", body.size());
  JsonAnswer answer(route, Crossing(), spans, head);
  AnswerStamp::Pieces pieces;
  answer.Feed(body, true, &pieces);
  const net::ResponseHead out = answer.HeadFor(head);
  const auto field = out.headers.Find("Content-Length");
  *length = field ? std::optional<std::string>(*field) : std::nullopt;
  std::string text;
  for (std::string_view piece : pieces) text += piece;
  return text;
}

TEST(JsonAnswerTest, AnnouncesTheLengthThatItHas) {
  std::optional<std::string> length;
  const std::string body =
      Pass(kCompletions, false, 200, R"({"id":"a","logprob":-1.2300})", &length);
  EXPECT_EQ(body,
            R"({"id":"a","logprob":-1.2300,"weight_version_start":41,"weight_version_end":42})");
  EXPECT_EQ(length, std::to_string(body.size()));
}

TEST(JsonAnswerTest, NamesTheVersionsIfAskedAndTheEngineDoesNot) {
  std::optional<std::string> length;
  EXPECT_EQ(Pass(kCompletions, true, 200, "{}", &length),
            R"({ "weight_version_start":41,"weight_version_end":42,"weight_version_spans":)"
            R"({"exact":false,"complete":true,"versions":[41,42]}})");
  EXPECT_EQ(Pass(kGenerate, true, 200, R"({"meta_info":{"id":1}})", &length),
            R"({"meta_info":{"weight_version_start":41,"weight_version_end":42,"id":1}})");
  EXPECT_EQ(length, std::nullopt);
}

TEST(JsonAnswerTest, LeavesErrorsAsTheyAre) {
  std::optional<std::string> length;
  EXPECT_EQ(Pass(kCompletions, true, 400, R"({"error":1})", &length), R"({"error":1})");
  EXPECT_EQ(length, "11");
}

TEST(StampFieldsTest, SayTheEndOnlyWhereItIsKnown) {
  net::Headers headers;
  AddStampFields("r", Crossing(), true, &headers);
  EXPECT_EQ(headers.Find("Isthmus-Version-Start"), "41");
  EXPECT_EQ(headers.Find("Isthmus-Version-End"), "42");
  EXPECT_EQ(headers.Find("Isthmus-Run"), "r");
  headers.Clear();
  AddStampFields("r", Crossing(), false, &headers);
  EXPECT_EQ(headers.Find("Isthmus-Version-End"), std::nullopt);
}

}  // namespace
}  // namespace isthmus::sidecar
