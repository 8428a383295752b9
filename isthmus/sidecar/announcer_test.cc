#include "isthmus/sidecar/announcer.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::sidecar {
namespace {

using isthmus::testing::ExpectError;

TEST(IslandIdTest, IsTheMachinesNameAndThePort) {
  EXPECT_EQ(DefaultIslandId("node-7.eu", 8089), "node-7.eu-8089");
  EXPECT_EQ(DefaultIslandId(".a b/c:\xc3\xa4", 1), "-a-b-c----1");
  EXPECT_EQ(DefaultIslandId("", 8089), "-8089");
  EXPECT_EQ(DefaultIslandId(std::string(1000, 'a'), 65535).size(), 128U);
}

TEST(AdvertisedUrlTest, IsTheListenersIfThatIsOneMachines) {
  EXPECT_EQ(AdvertisedUrl("10.0.0.7", 8089, false), "http://10.0.0.7:8089");
  EXPECT_EQ(AdvertisedUrl("fe80::1", 443, true), "https://[fe80::1]:443");
  for (const char* host : {"0.0.0.0", "::", "", "localhost", "node-7.eu"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { AdvertisedUrl(host, 8089, false); }, "--advertise");
  }
}

TEST(AnnouncerTest, AWrongNameOrUrlIsRefused) {
  net::Loop loop(1);
  observe::EventLog events;
  const auto make = [&](std::string id, std::string url) {
    AnnouncerOptions options;
    options.gateways.push_back({false, "127.0.0.1", 1});
    options.island_id = std::move(id);
    options.advertise = std::move(url);
    const Announcer announcer(
        loop, std::move(options), [] { return boost::json::object(); }, events);
  };
  make("a", "http://a");
  ExpectError(
      ErrorCode::kInvalid, [&] { make("a b", "http://a"); }, "--island-id");
  ExpectError(
      ErrorCode::kInvalid, [&] { make("a", "a:80"); }, "--advertise");
}

}  // namespace
}  // namespace isthmus::sidecar
