#include "isthmus/gateway/rollout_collector.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <random>
#include <vector>

#include "isthmus/gateway/folded_stream.h"
#include "isthmus/gateway/rollout.h"
#include "isthmus/lane/json_text.h"
#include "tests/support/seed.h"

namespace isthmus::gateway {
namespace {

using Form = RolloutCollector::Form;
using boost::json::parse;

std::string Events(const std::vector<std::string>& data) {
  std::string stream;
  for (const std::string& event : data) stream += "data: " + event + "\n\n";
  return stream;
}

struct Collected {
  bool before_end = false;  // finished
  bool finished = false;
  bool cut = false;
  std::string answer;

  bool operator==(const Collected&) const = default;
};

Collected Collect(Form form, std::string_view bytes, uint64_t expected = 1,
                  size_t max_bytes = 1 << 20, size_t step = std::string_view::npos) {
  net::ByteBudget all(uint64_t{1} << 30);
  RolloutCollector collector(form, expected, max_bytes, all);
  for (size_t at = 0; at < bytes.size(); at += std::min(step, bytes.size() - at)) {
    collector.Feed(bytes.substr(at, step));
  }
  Collected collected;
  collected.before_end = collector.finished();
  collector.End();
  collected.finished = collector.finished();
  collected.answer = collector.TakeAnswer();
  collected.cut = collector.cut();
  return collected;
}

Collected Stream(const std::vector<std::string>& data, uint64_t expected = 1) {
  return Collect(Form::kEvents, Events(data), expected);
}

void ExpectAnswer(const Collected& collected, std::string_view answer) {
  EXPECT_FALSE(collected.cut);
  EXPECT_TRUE(collected.finished);
  EXPECT_EQ(parse(collected.answer), parse(answer)) << collected.answer;
}

TEST(RolloutCollector, TakesAnAnswerInOnePiece) {
  const Collected got = Collect(Form::kOnePiece, "{\n\"usage\": 1.50}\n");
  EXPECT_FALSE(got.before_end);
  EXPECT_TRUE(got.finished);
  EXPECT_EQ(got.answer, "{ \"usage\": 1.50} ");
}

TEST(RolloutCollector, TakesNothingThatIsNotWhole) {
  for (const std::string_view text : {"", "{\"a\":", "<html>", "{}{}"}) {
    const Collected got = Collect(Form::kOnePiece, text);
    EXPECT_FALSE(got.finished) << text;
    EXPECT_EQ(got.answer, "");
  }
  net::ByteBudget all(1 << 20);
  RolloutCollector broken(Form::kOnePiece, 1, 1 << 20, all);
  broken.Feed("{}");
  EXPECT_FALSE(broken.finished());
  EXPECT_EQ(broken.TakeAnswer(), "");
}

TEST(RolloutCollector, SaysThatItCutALargeAnswer) {
  const Collected got =
      Collect(Form::kOnePiece, "{\"a\":\"" + std::string(100, 'x') + "\"}", 1, 50, 7);
  EXPECT_TRUE(got.finished);
  EXPECT_TRUE(got.cut);
  EXPECT_EQ(got.answer, "");
}

TEST(RolloutCollector, HoldsNoMoreThanAllMay) {
  net::ByteBudget all(100);
  const std::string text = "{\"a\":\"" + std::string(52, 'x') + "\"}";
  for (const Form form : {Form::kOnePiece, Form::kEvents}) {
    const std::string bytes = form == Form::kEvents ? "data: " + text + "\n\n" : text;
    RolloutCollector first(form, 1, 1 << 20, all);
    first.Feed(bytes);
    {
      RolloutCollector second(form, 1, 1 << 20, all);
      second.Feed(bytes);
      second.End();
      EXPECT_TRUE(second.cut());
    }
    first.End();
    EXPECT_FALSE(first.cut());
    EXPECT_FALSE(first.TakeAnswer().empty());
  }
  EXPECT_EQ(all.held(), 0U);
}

TEST(RolloutCollector, FoldsCompletions) {
  const Collected got = Stream({
      R"({"id":"c","choices":[{"index":0,"text":"a\u00e","logprobs":null,"finish_reason":null}]})",
      R"({"id":"c","choices":[{"index":0,"text":"a\"","logprobs":{"tokens":["a"],"token_logprobs":[-0.10],"text_offset":[0]},"token_ids":[5],"finish_reason":null,"stop_reason":null}]})",
      R"({"id":"c","choices":[{"index":0,"text":"\n","logprobs":{"tokens":["\n"],"token_logprobs":[-1e400],"text_offset":[1]},"token_ids":[ 6 ,7],"finish_reason":"length","stop_reason":null}],"weight_version_start":4,"weight_version_end":5})",
      R"({"id":"c","choices":[],"usage":{"completion_tokens":3}})",
      "[DONE]",
  });
  EXPECT_TRUE(got.before_end);
  EXPECT_EQ(
      got.answer,
      R"({"id":"c","weight_version_start":4,"weight_version_end":5,"usage":{"completion_tokens":3},)"
      R"("choices":[{"index":0,"text":"a\"\n","token_ids":[5, 6 ,7],"finish_reason":"length","stop_reason":null,)"
      R"("logprobs":{"tokens":["a","\n"],"token_logprobs":[-0.10,-1e400],"text_offset":[0,1]}}]})");
}

TEST(RolloutCollector, FoldsChats) {
  ExpectAnswer(
      Stream({
          R"({"prompt_token_ids":[1,2],"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
          R"({"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm"},"logprobs":{"content":[{"token":"h"}]}}]})",
          R"({"choices":[{"index":0,"delta":{"content":"A"},"logprobs":{"content":[ ]}}]})",
          R"({"choices":[{"index":0,"delta":{"content":"B","tool_calls":[{"index":0,"function":{"arguments":"{"}}]},"logprobs":{"content":[{"token":"AB"}]}}]})",
          R"({"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]})",
      }),
      R"({"prompt_token_ids":[1,2],"choices":[{"index":0,"finish_reason":"tool_calls",
          "message":{"role":"assistant","content":"AB","reasoning_content":"hm","tool_call_deltas":[
            {"index":0,"function":{"arguments":"{"}},{"index":0,"function":{"arguments":"}"}}]},
          "logprobs":{"content":[{"token":"h"},{"token":"AB"}]}}]})");
}

TEST(RolloutCollector, FoldsTokensOfVllm) {
  ExpectAnswer(
      Stream({
          R"({"request_id":"x","choices":[{"index":0,"token_ids":[1],"logprobs":{"content":[{"token_id":1}]},"finish_reason":null}]})",
          R"({"request_id":"x","choices":[{"index":0,"token_ids":[2],"logprobs":{"content":[{"token_id":2}]},"finish_reason":"stop","weight_versions":[{"version":"3","start":0,"end":2}]}]})",
      }),
      R"({"request_id":"x","choices":[{"index":0,"token_ids":[1,2],"finish_reason":"stop",
          "weight_versions":[{"version":"3","start":0,"end":2}],
          "logprobs":{"content":[{"token_id":1},{"token_id":2}]}}]})");
}

std::string Choice(int index, std::string_view finish) {
  return fmt::format(R"({{"choices":[{{"index":{},"text":"x","finish_reason":{}}}]}})", index,
                     finish);
}

TEST(RolloutCollector, WaitsForEachChoice) {
  const std::vector<std::string> one = {Choice(0, "\"stop\"")};
  EXPECT_TRUE(Stream(one, 1).before_end);
  EXPECT_FALSE(Stream(one, 2).before_end);
  EXPECT_TRUE(Stream(one, 2).finished);
  const std::vector<std::string> begun = {Choice(1, "null"), Choice(0, "\"stop\"")};
  EXPECT_FALSE(Stream(begun, 1).before_end);
  EXPECT_FALSE(Stream(begun, 1).finished);
  const std::vector<std::string> all = {Choice(1, "null"), Choice(0, "\"stop\""),
                                        Choice(0, "\"stop\""), Choice(1, "\"abort\"")};
  EXPECT_TRUE(Stream(all, 2).before_end);
  EXPECT_EQ(parse(Stream(all, 2).answer).at("choices").at(1).at("index"), 1);
}

TEST(RolloutCollector, TellsAStreamThatBrokeOff) {
  EXPECT_FALSE(Stream({Choice(0, "null")}).finished);
  EXPECT_FALSE(Stream({Choice(0, "null"), R"({"error":{"message":"gone"}})"}).finished);
  EXPECT_FALSE(Stream({}).finished);
  EXPECT_FALSE(Stream({R"({"error":{"message":"gone"}})"}).finished);
  EXPECT_FALSE(Stream({"[DONE]"}).before_end);
  // The end of the last event is missing.
  const std::string stream = Events({Choice(0, "\"stop\"")});
  EXPECT_FALSE(
      Collect(Form::kEvents, std::string_view(stream).substr(0, stream.size() - 1)).finished);
}

std::string Record(std::string_view text, std::string_view ids, int tokens, std::string_view finish,
                   std::string_view logprobs, int index = 0) {
  return fmt::format(
      R"({{"text":"{}","output_ids":[{}],"index":{},"meta_info":{{"completion_tokens":{},"output_token_logprobs":[{}],"finish_reason":{}}}}})",
      text, ids, index, tokens, logprobs, finish);
}

constexpr std::string_view kStop = R"({"type":"stop"})";
constexpr std::string_view kFolded =
    R"({"text":"abc","output_ids":[1,2,3],"index":0,"meta_info":{"completion_tokens":3,
        "output_token_logprobs":[[-1,1],[-2,2],[-3,3]],"finish_reason":{"type":"stop"}}})";

TEST(RolloutCollector, FoldsRecordsThatComeWhole) {
  const Collected got = Stream(
      {Record("a", "1", 1, "null", "[-1,1]"), Record("ab", "1,2", 2, "null", "[-1,1],[-2,2]"),
       Record("abc", "1,2,3", 3, kStop, "[-1,1],[-2,2],[-3,3]"), "[DONE]"});
  EXPECT_TRUE(got.before_end);
  ExpectAnswer(got, kFolded);
}

TEST(RolloutCollector, FoldsRecordsThatComeInPieces) {
  ExpectAnswer(Stream({Record("a", "1", 1, "null", "[-1,1]"), Record("b", "2", 2, "null", "[-2,2]"),
                       Record("c", "3", 3, kStop, "[-3,3]")}),
               kFolded);
  // An end of its own, without tokens.
  ExpectAnswer(
      Stream({Record("a", "1", 1, "null", "[-1,1]"),
              Record("bc", "2,3", 3, "null", "[-2,2],[-3,3]"), Record("", "", 3, kStop, "")}),
      kFolded);
}

TEST(RolloutCollector, FoldsIdsInPiecesWithWholeTexts) {
  ExpectAnswer(
      Stream({Record("a", "1", 1, "null", "[-1,1]"), Record("ab", "2", 2, "null", "[-2,2]"),
              Record("abc", "3", 3, kStop, "[-3,3]")}),
      kFolded);
}

TEST(RolloutCollector, FoldsSeveralRecords) {
  const Collected got = Stream({Record("a", "1", 1, "null", ""), Record("x", "9", 1, kStop, "", 1),
                                Record("ab", "1,2", 2, kStop, "")},
                               2);
  EXPECT_TRUE(got.before_end);
  const auto answer = parse(got.answer);
  EXPECT_EQ(answer.at(0).at("text"), "ab");
  EXPECT_EQ(answer.at(1).at("text"), "x");
}

TEST(RolloutCollector, KeepsOtherStreamsAsTheyAre) {
  const Collected got = Stream({R"({"type":"message_start","message":{"id":"m"}})",
                                R"({"type":"content_block_delta","delta":{"text":"x"}})",
                                R"({"type":"message_stop"})"});
  EXPECT_TRUE(got.before_end);
  ExpectAnswer(got, R"({"events":[{"type":"message_start","message":{"id":"m"}},
      {"type":"content_block_delta","delta":{"text":"x"}},{"type":"message_stop"}]})");
  EXPECT_TRUE(Stream({R"({"type":"response.completed","response":{}})"}).before_end);
  EXPECT_FALSE(Stream({R"({"type":"response.created","response":{}})"}).before_end);
  EXPECT_FALSE(Stream({R"({"type":"response.failed","response":{}})"}).finished);
}

TEST(RolloutCollector, IgnoresWhatIsNoEventOfAnAnswer) {
  const std::string stream =
      ": hello\n\nevent: ping\n\ndata: \xFF\n\ndata: 17\n\ndata: {\"a\":\n\n" +
      Events({Choice(0, "\"stop\"")}) + "data: {\"choices\":[1,{}\n\n";
  const Collected got = Collect(Form::kEvents, stream);
  ExpectAnswer(got, R"({"choices":[{"index":0,"text":"x","finish_reason":"stop"}]})");
}

TEST(RolloutCollector, CutsWhatIsTooLargeAndStillSeesTheEnd) {
  std::vector<std::string> data(200, Choice(0, "null"));
  for (std::string& event : data) event.insert(event.find("\"x\"") + 1, 100, 'x');
  data.push_back(Choice(0, "\"stop\""));
  const Collected got = Collect(Form::kEvents, Events(data), 1, 4'096);
  EXPECT_TRUE(got.before_end);
  EXPECT_TRUE(got.cut);
  EXPECT_LT(got.answer.size(), 4'096U);
  EXPECT_TRUE(parse(got.answer).at("choices").at(0).at("text").as_string().starts_with("xxx"));
}

TEST(RolloutCollector, CutsAnEventThatIsTooLarge) {
  const Collected got = Collect(
      Form::kEvents, Events({Choice(0, "null"), std::string(10'000, 'x')}), 1, 4'096, 1'000);
  EXPECT_TRUE(got.cut);
  EXPECT_FALSE(got.before_end);
}

TEST(RolloutCollector, HoldsNoMoreThanItsBoundOfHostileEvents) {
  std::string choices = R"({"choices":[{})";
  for (int i = 0; i < 10'000; ++i) choices += ",{}";
  std::string members = R"({"choices":[],"m":0)";
  for (int i = 0; i < 1'000; ++i) members += fmt::format(R"(,"m{}":0)", i);
  for (const std::string& event : {choices + "]}", members + "}"}) {
    const Collected got = Stream({event});
    EXPECT_TRUE(got.cut);
    const auto answer = parse(got.answer).as_object();
    EXPECT_LE(answer.size(), MergedMembers::kMaxMembers + 1);
    EXPECT_LE(answer.at("choices").as_array().size(), FoldedStream::kMaxChoices);
  }
}

TEST(RolloutCollector, CutsWhatIsTooDeep) {
  const auto nested = [](size_t depth) {
    return R"({"x":)" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  const Collected deep = Stream({nested(lane::kMaxJsonDepth - 2)});
  EXPECT_FALSE(deep.cut);
  EXPECT_TRUE(OnOneLine(deep.answer));
  const Collected deeper = Stream({nested(lane::kMaxJsonDepth)});
  EXPECT_TRUE(deeper.cut);
  EXPECT_EQ(deeper.answer, "");
}

TEST(RolloutCollector, GivesTheSameForPiecesOfAnySize) {
  const std::string stream =
      Events({R"({"choices":[{"delta":{"role":"assistant","content":"a\"}\n"},"token_ids":[1]}]})",
              R"({"choices":[{"delta":{"content":"é"},"token_ids":[2],"finish_reason":"stop"}]})",
              R"({"choices":[],"usage":{}})", "[DONE]"});
  const Collected whole = Collect(Form::kEvents, stream);
  EXPECT_TRUE(whole.finished);
  for (size_t step = 1; step < stream.size(); ++step) {
    EXPECT_EQ(Collect(Form::kEvents, stream, 1, 1 << 20, step), whole) << step;
  }
  // Cut anywhere: what is there is JSON, and finished only with the event that says so.
  const size_t finish = stream.find("data: {\"choices\":[],");
  for (size_t size = 0; size <= stream.size(); ++size) {
    const Collected part = Collect(Form::kEvents, stream.substr(0, size));
    EXPECT_EQ(part.before_end, size >= finish) << size;
    if (!part.answer.empty()) {
      parse(part.answer);
    }
  }
}

TEST(RolloutCollector, AnswersWithJsonWhateverComes) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string stream =
      Events({Record("a", "1", 1, "null", ""), Record("b", "2", 2, kStop, ""),
              R"({"choices":[{"delta":{"content":"a","role":"x"},"logprobs":{"content":[1]}}]})"});
  for (int round = 0; round < 2'000; ++round) {
    std::string damaged = stream;
    for (int i = 0; i < 4; ++i) {
      damaged[random() % damaged.size()] = "\"\\{}[],:0a\n\xFF"[random() % 12];
    }
    const Collected got = Collect(Form::kEvents, damaged, 1, 1 << 20, 1 + random() % 64);
    EXPECT_EQ(got.answer.find('\n'), std::string::npos);
    if (!got.answer.empty()) {
      parse(got.answer);
    }
  }
}

TEST(ExpectedChoices, CountsPromptsTimesN) {
  const std::vector<std::pair<std::string_view, uint64_t>> cases = {
      {R"({"prompt":"x"})", 1},
      {R"({"prompt":"x","n":4})", 4},
      {R"({"prompt":["x","y"],"n":4})", 8},
      {R"({"prompt":[1,2,3]})", 1},
      {R"({"prompt":[[1],[2]]})", 2},
      {R"({"messages":[{"role":"user"},{}],"n":2})", 2},
      {R"({"messages":[[{}],[{}]]})", 2},
      {R"({"token_ids":[1,2],"sampling_params":{"n":3}})", 3},
      {R"({"input_ids":[[1],[2],[3]],"sampling_params":{"n":2}})", 6},
      {R"({"text":["a","b"]})", 2},
      {R"({"n":0})", 1},
      {R"({"n":null})", 1},
      {R"({"n":1e9})", 1},
      {R"({"n":99999999})", FoldedStream::kMaxChoices},
      {R"({"n":2)", 1},
      {"[]", 1},
      {"", 1},
  };
  for (const auto& [body, expected] : cases) EXPECT_EQ(ExpectedChoices(body), expected) << body;
}

}  // namespace
}  // namespace isthmus::gateway
