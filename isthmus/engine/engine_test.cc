#include "isthmus/engine/engine.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/net.h"

namespace isthmus::engine {
namespace {

using isthmus::testing::ExpectError;
using isthmus::testing::LoopThread;

TEST(EngineSpecTest, NamesAKindAndATarget) {
  const EngineSpec spec = EngineSpec::Parse("vllm:http://127.0.0.1:8000");
  EXPECT_EQ(spec.kind, "vllm");
  EXPECT_EQ(spec.target, "http://127.0.0.1:8000");
  for (std::string_view text : {"", "vllm", "vllm:", ":http://a"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { EngineSpec::Parse(text); }, "expected KIND:TARGET");
  }
}

void Make(const EngineSpec& spec, EngineOptions options = {}) {
  LoopThread loop;
  loop.Do([&] { MakeEngine(loop.loop(), spec, options); });
}

TEST(MakeEngineTest, RefusesUnknownKindsAndMalformedTargets) {
  ExpectError(
      ErrorCode::kInvalid,
      [] {
        Make({"tgi", "http://a"});
      },
      "\"tgi\"", "vllm, sglang");
  for (std::string_view kind : {"vllm", "sglang", "webhook"}) {
    ExpectError(ErrorCode::kInvalid, [&] { Make({std::string(kind), "ftp://a"}); });
  }
  ExpectError(ErrorCode::kInvalid, [] { Make({"vllm", "http://a/path"}); });
  ExpectError(
      ErrorCode::kInvalid,
      [] {
        Make({"command", "load.sh"});
      },
      "absolute path");
  for (std::string_view url : {"http://a/b c", "http://a/#f", "http://a/\r\nX: 1"}) {
    ExpectError(ErrorCode::kInvalid, [&] { Make({"webhook", std::string(url)}); });
  }
  Make({"webhook", "https://a?x=1"});
}

TEST(MakeEngineTest, RefusesLimitsThatNothingCanMeet) {
  EngineOptions options;
  options.limits.flush = net::Milliseconds(0);
  ExpectError(
      ErrorCode::kInvalid,
      [&] {
        Make({"vllm", "http://a"}, options);
      },
      "0 ms");
}

}  // namespace
}  // namespace isthmus::engine
