#include "isthmus/observe/event_log.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "isthmus/base/clock.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::observe {
namespace {

namespace json = boost::json;

TEST(EventLogTest, AppendsOneObjectALine) {
  const testing::TempDir directory;
  const std::string file = directory / "events";
  for (int run = 0; run < 2; ++run) {
    EventLog log(file);
    log.Write("switched", {{"to", 42}, {"note", "a\nb"}});
  }
  const std::string text = ReadFile(file, 1 << 20);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2);
  const json::object event = json::parse(text.substr(0, text.find('\n'))).as_object();
  EXPECT_EQ(event.at("event"), "switched");
  EXPECT_EQ(event.at("to"), 42);
  EXPECT_EQ(event.at("note"), "a\nb");
  EXPECT_NO_THROW(ParseTime(std::string(event.at("time").as_string())));
}

TEST(EventLogTest, KeepsTheNewestInMemory) {
  EventLog log;
  for (size_t i = 0; i <= EventLog::kKept; ++i) log.Write("event", {{"i", i}});
  ASSERT_EQ(log.recent().size(), EventLog::kKept);
  EXPECT_EQ(json::parse(log.recent().front()).at("i"), 1);
  EXPECT_EQ(json::parse(log.recent().back()).at("i"), EventLog::kKept);
}

TEST(EventLogTest, AFullDiskStopsNothing) {
  EventLog log("/dev/full");
  log.Write("event");
  EXPECT_EQ(log.lost(), 1u);
  EXPECT_EQ(log.recent().size(), 1u);
}

TEST(EventLogTest, AFileThatCannotBeOpenedIsRefused) {
  testing::ExpectError(
      ErrorCode::kNotFound, [] { const EventLog log("/nowhere/events"); }, "/nowhere/events");
}

}  // namespace
}  // namespace isthmus::observe
