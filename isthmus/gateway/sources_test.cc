#include "isthmus/gateway/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "tests/support/net.h"
#include "tests/support/temp_dir.h"

namespace isthmus::gateway {
namespace {

using isthmus::testing::LoopThread;
using isthmus::testing::TempDir;
using ::testing::HasSubstr;

ListedIsland Island(std::string id, std::string host, uint16_t port, bool tls = false) {
  return {std::move(id), {tls, std::move(host), port}};
}

TEST(ListedTest, HasAnIdOfItsOwnOrItsAddress) {
  EXPECT_EQ(ParseListed("http://10.0.0.7:8089"), Island("10.0.0.7-8089", "10.0.0.7", 8089));
  EXPECT_EQ(ParseListed("eu = https://a.example"), Island("eu", "a.example", 443, true));
  EXPECT_EQ(ParseListed("http://[fe80::1]:80"), Island("fe80--1-80", "fe80::1", 80));
  for (const char* wrong : {"", "a", "=http://a", "a b=http://a", "a=b=http://a", "http://a/b",
                            "a=http://u@b", ".a=http://b"}) {
    EXPECT_THROW(ParseListed(wrong), Error) << wrong;
  }
}

TEST(ListedTest, LinesHaveCommentsAndNumbers) {
  const auto islands =
      ParseListedLines("# all\n\n a=http://x:1 # one\r\nhttp://y:2\n#b=http://z:3");
  EXPECT_THAT(islands, ::testing::ElementsAre(Island("a", "x", 1), Island("y-2", "y", 2)));
  try {
    ParseListedLines("a=http://x:1\n\nnonsense\n");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("line 3"));
  }
}

class SourcesTest : public ::testing::Test {
 public:
  ~SourcesTest() override {
    loop_.Do([&] { sources_.reset(); });
  }

 protected:
  void Start(SourceOptions options) {
    options.file_poll = options.name_poll = milliseconds(5);
    loop_.Do([&] {
      sources_.emplace(loop_.loop(), std::move(options), events_);
      sources_->Start([this](const std::vector<ListedIsland>& islands) {
        islands_ = islands;
        ++changes_;
      });
    });
  }
  bool Becomes(const std::vector<ListedIsland>& expected) {
    return loop_.Eventually([&] { return islands_ == expected; });
  }
  bool Logged(std::string_view text) {
    return loop_.Eventually([&] {
      for (const std::string& line : events_.recent()) {
        if (line.find(text) != line.npos) return true;
      }
      return false;
    });
  }
  // In one step, as careful writers do.
  void Replace(std::string_view text) {
    dir_.Write("next", text);
    fs::rename(dir_ / "next", dir_ / "islands");
  }

  TempDir dir_;
  LoopThread loop_;
  observe::EventLog events_;
  std::vector<ListedIsland> islands_;
  size_t changes_ = 0;
  std::optional<Sources> sources_;
};

TEST_F(SourcesTest, TheCommandLineIsThereAtOnce) {
  Start({.islands = {"a=http://x:1"}});
  EXPECT_EQ(loop_.Do([&] { return islands_; }), std::vector{Island("a", "x", 1)});
}

TEST_F(SourcesTest, AFileIsReadAgainWhenItChanges) {
  dir_.Write("islands", "a=http://x:1\n");
  Start({.islands = {"z=http://z:9"}, .file = dir_ / "islands"});
  const ListedIsland z = Island("z", "z", 9);
  EXPECT_TRUE(Becomes({z, Island("a", "x", 1)}));
  Replace("b=http://x:1\n");  // as long as it was
  EXPECT_TRUE(Becomes({z, Island("b", "x", 1)}));
  dir_.Write("islands", "b=http://x:1\nc=http://x:2\n");
  EXPECT_TRUE(Becomes({z, Island("b", "x", 1), Island("c", "x", 2)}));
}

TEST_F(SourcesTest, AFileThatCannotBeReadChangesNothing) {
  dir_.Write("islands", "a=http://x:1\n");
  Start({.file = dir_ / "islands"});
  const std::vector a{Island("a", "x", 1)};
  EXPECT_TRUE(Becomes(a));
  Replace("nonsense\n");
  EXPECT_TRUE(Logged("line 1"));
  fs::remove(dir_ / "islands");
  EXPECT_TRUE(Logged("look at"));
  Replace("# nobody\n");
  EXPECT_TRUE(Logged("names no island"));
  EXPECT_EQ(loop_.Do([&] { return islands_; }), a);
  Replace("b=http://x:1\n");
  EXPECT_TRUE(Becomes({Island("b", "x", 1)}));
  EXPECT_TRUE(Logged("islands_read"));
}

TEST_F(SourcesTest, AFileThatIsThereLaterIsRead) {
  Start({.file = dir_ / "islands"});
  EXPECT_TRUE(Logged("islands_unread"));
  Replace("b=http://x:1\n");
  EXPECT_TRUE(Becomes({Island("b", "x", 1)}));
}

TEST_F(SourcesTest, EachAddressOfANameIsAnIsland) {
  // A numeric address is a name that needs no name server.
  Start({.names = {{false, "127.0.0.1", 8089}, {false, "localhost", 80}}});
  EXPECT_TRUE(loop_.Eventually([&] {
    return std::ranges::count(islands_, Island("127.0.0.1-8089", "127.0.0.1", 8089)) == 1 &&
           (std::ranges::count(islands_, Island("127.0.0.1-80", "127.0.0.1", 80)) == 1 ||
            std::ranges::count(islands_, Island("--1-80", "::1", 80)) == 1);
  }));
  const size_t changes = loop_.Do([&] { return changes_; });
  loop_.Run([]() -> net::Task<void> { co_await isthmus::testing::Pause(milliseconds(50)); });
  EXPECT_EQ(loop_.Do([&] { return changes_; }), changes);
}

TEST_F(SourcesTest, ANameThatDoesNotExistIsToldOfOnce) {
  // Reserved (RFC 2606), and longer than a label may be: no resolver has to ask anybody.
  Start({.names = {{false, std::string(64, 'a') + ".invalid", 80}}});
  EXPECT_TRUE(Logged("islands_unread"));
  loop_.Run([]() -> net::Task<void> { co_await isthmus::testing::Pause(milliseconds(50)); });
  EXPECT_EQ(loop_.Do([&] { return events_.recent().size(); }), 1U);
  EXPECT_TRUE(loop_.Do([&] { return islands_.empty(); }));
}

}  // namespace
}  // namespace isthmus::gateway
