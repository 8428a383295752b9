#include "isthmus/net/sse.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/errors.h"

namespace isthmus::net {
namespace {

using isthmus::testing::ExpectError;

struct Seen {
  std::vector<std::string> events;  // "event|data|id|retry"
  std::string raw;
};

SseSplitter::Sink Into(Seen* seen) {
  return [seen](const SseEvent& event) {
    seen->raw += event.raw;
    if (!event.has_data) return;
    seen->events.push_back(
        fmt::format("{}|{}|{}|{}", event.event, event.data, event.id, event.retry));
  };
}

using Events = std::vector<std::string>;

Events Split(std::string_view stream) {
  Seen seen;
  SseSplitter splitter(1000);
  splitter.Feed(stream, Into(&seen));
  return seen.events;
}

TEST(SseTest, FieldsAreReadAsTheStandardSays) {
  EXPECT_EQ(Split("data: a\ndata:b\ndata\n\n"), (Events{"|a\nb\n||"}));
  EXPECT_EQ(Split("event: add\nid: 7\nretry: 250\ndata:  x\n\n"), (Events{"add| x|7|250"}));
  EXPECT_EQ(Split("retry: 2x\nid: a\nother: b\ndata: :c\n\n"), (Events{"|:c|a|"}));
  EXPECT_EQ(Split("\xef\xbb\xbf"
                  "data: a\n\n\xef\xbb\xbf"
                  "data: b\n\n"),
            (Events{"|a||"}));
  EXPECT_EQ(Split(": ping\n\nevent: x\n\ndata: a\n\n"), (Events{"|a||"}));
  EXPECT_EQ(Split("data: not finished\n"), Events{});
}

TEST(SseTest, EveryCutOfEveryLineEndGivesTheSameEventsAndBytes) {
  for (std::string_view end : {"\n", "\r\n", "\r"}) {
    std::string stream;
    for (std::string_view line :
         {"data: one", "id: 1", "", ":c", "", "data: two", "data: 2", "", "tail"}) {
      stream.append(line).append(end);
    }
    for (size_t first = 0; first <= stream.size(); ++first) {
      for (size_t second = first; second <= stream.size(); ++second) {
        Seen seen;
        SseSplitter splitter(100);
        const std::string_view all = stream;
        splitter.Feed(all.substr(0, first), Into(&seen));
        splitter.Feed(all.substr(first, second - first), Into(&seen));
        splitter.Feed(all.substr(second), Into(&seen));
        ASSERT_EQ(seen.events, (Events{"|one|1|", "|two\n2||"})) << first << " " << second;
        ASSERT_EQ(seen.raw + std::string(splitter.rest()), stream);
      }
    }
  }
}

TEST(SseTest, AnEventIsHandedOutAtTheByteThatCompletesIt) {
  Seen seen;
  SseSplitter splitter(100);
  splitter.Feed("data: a\r\n\r", Into(&seen));
  EXPECT_EQ(seen.events.size(), 1U);
  splitter.Feed("\ndata: b\r\r", Into(&seen));
  EXPECT_EQ(seen.events, (Events{"|a||", "|b||"}));
}

TEST(SseTest, AnEventIsBoundedHoweverItIsCut) {
  const std::string line = "data: " + std::string(20, 'x') + "\n\n";  // 28 bytes
  for (size_t cut = 0; cut <= line.size(); ++cut) {
    Seen seen;
    SseSplitter fits(line.size());
    fits.Feed(line.substr(0, cut), Into(&seen));
    fits.Feed(line.substr(cut) + line, Into(&seen));
    EXPECT_EQ(seen.events.size(), 2U);
    SseSplitter too_small(line.size() - 1);
    const auto feed = [&] {
      too_small.Feed(line.substr(0, cut), Into(&seen));
      too_small.Feed(line.substr(cut), Into(&seen));
    };
    ExpectError(ErrorCode::kCorrupt, feed, "more than 27 bytes");
  }
}

}  // namespace
}  // namespace isthmus::net
