#include "isthmus/store/store.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;

TEST(CheckKeyTest, NamesTheKeyAndTheRule) {
  EXPECT_NO_THROW(CheckKey("runs/a.b/log/0000000001.json"));
  EXPECT_NO_THROW(CheckKey("-"));
  ExpectError(
      ErrorCode::kInvalid, [] { CheckKey("runs/../x"); }, "runs/../x", "1024",
      "beginning with '.'");
}

TEST(CheckKeyTest, AHugeKeyDoesNotMakeAHugeMessage) {
  try {
    CheckKey(std::string(1 << 20, '\n'));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 1000u);
  }
}

TEST(OpenStoreTest, APathOrAFileUrlIsADirectory) {
  for (const std::string path : {"/some/where", "relative", "./a:b", "./s3://x"}) {
    EXPECT_EQ(OpenStore(path)->Describe(), path);
  }
  EXPECT_EQ(OpenStore("file:///some/where")->Describe(), "/some/where");
}

TEST(OpenStoreTest, BucketsAndWebServersAreNamedByTheirScheme) {
  EXPECT_EQ(OpenStore("s3://bucket/a/b/")->Describe(), "s3://bucket/a/b");
  EXPECT_EQ(OpenStore("s3://bucket")->Describe(), "s3://bucket");
  EXPECT_EQ(OpenStore("https://HOST:443/x/")->Describe(), "https://host/x");
  for (const std::string location : {"s3://", "s3:///x", "s3://b/../c", "s3://b/a b", "http://",
                                     "http://user@host/", "http://host/?q", "http://host:0x1/"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { OpenStore(location); }, "expected");
  }
}

TEST(OpenStoreTest, OtherLocationsAreInvalid) {
  for (const std::string location : {"", "gs://bucket/prefix", "s3a://bucket", "file://host/x"}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { OpenStore(location); }, location, "directory path");
  }
}

}  // namespace
}  // namespace isthmus::store
