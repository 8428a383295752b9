#include "isthmus/store/s3_settings.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/errors.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;

S3Settings Resolve(const std::string& location, const StoreOptions& options = {},
                   std::map<std::string, std::string> variables = {}) {
  return S3Settings::Resolve(location, options, [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  });
}

std::string UrlOf(const S3Settings& settings) { return settings.Url(settings.Path("k/1")); }

TEST(S3SettingsTest, AtAmazonTheBucketIsInTheHostsName) {
  EXPECT_EQ(UrlOf(Resolve("s3://bucket/a/b/")),
            "https://bucket.s3.us-east-1.amazonaws.com/a/b/k/1");
  StoreOptions options;
  options.s3_region = "cn-north-1";
  EXPECT_EQ(UrlOf(Resolve("s3://bucket", options)),
            "https://bucket.s3.cn-north-1.amazonaws.com.cn/k/1");
  options.s3_virtual_host = false;
  EXPECT_EQ(UrlOf(Resolve("s3://bucket", options)),
            "https://s3.cn-north-1.amazonaws.com.cn/bucket/k/1");
  EXPECT_EQ(UrlOf(Resolve("s3://a.b")), "https://s3.us-east-1.amazonaws.com/a.b/k/1");
}

TEST(S3SettingsTest, AtANamedEndpointTheBucketIsInThePath) {
  StoreOptions options;
  options.s3_endpoint = "http://HOST:9000/";
  EXPECT_EQ(UrlOf(Resolve("s3://bucket", options)), "http://host:9000/bucket/k/1");
  EXPECT_EQ(Resolve("s3://bucket", options).Path(""), "/bucket");
  options.s3_virtual_host = true;
  EXPECT_EQ(UrlOf(Resolve("s3://bucket", options)), "http://bucket.host:9000/k/1");
  EXPECT_EQ(Resolve("s3://bucket", options).Path(""), "/");
}

TEST(S3SettingsTest, OptionsWinOverTheEnvironment) {
  std::map<std::string, std::string> variables = {{"AWS_ENDPOINT_URL", "http://all"},
                                                  {"AWS_DEFAULT_REGION", "default"}};
  EXPECT_EQ(Resolve("s3://b", {}, variables).endpoint.host, "all");
  EXPECT_EQ(Resolve("s3://b", {}, variables).region, "default");
  variables["AWS_ENDPOINT_URL_S3"] = "http://s3";
  variables["AWS_REGION"] = "region";
  variables["AWS_CA_BUNDLE"] = "bundle";
  EXPECT_EQ(Resolve("s3://b", {}, variables).endpoint.host, "s3");
  EXPECT_EQ(Resolve("s3://b", {}, variables).region, "region");
  EXPECT_EQ(Resolve("s3://b", {}, variables).ca_file, "bundle");
  StoreOptions options;
  options.s3_endpoint = "http://option";
  options.s3_region = "mine";
  options.ca_file = "ca";
  EXPECT_EQ(Resolve("s3://b", options, variables).endpoint.host, "option");
  EXPECT_EQ(Resolve("s3://b", options, variables).region, "mine");
  EXPECT_EQ(Resolve("s3://b", options, variables).ca_file, "ca");
}

TEST(S3SettingsTest, GoogleIsSpokenToInItsOwnWords) {
  StoreOptions options;
  options.s3_endpoint = "https://storage.googleapis.com";
  const S3Settings settings = Resolve("s3://bucket", options);
  EXPECT_EQ(settings.dialect.header_prefix, "x-goog-");
  EXPECT_EQ(settings.region, "auto");
}

TEST(S3SettingsTest, AnotherRegionIsAnotherHostAtAmazonOnly) {
  S3Settings amazon = Resolve("s3://bucket");
  amazon.MoveTo("eu-west-1");
  EXPECT_EQ(amazon.Host(), "bucket.s3.eu-west-1.amazonaws.com");
  StoreOptions options;
  options.s3_endpoint = "http://host";
  S3Settings other = Resolve("s3://bucket", options);
  other.MoveTo("eu-west-1");
  EXPECT_EQ(other.Host(), "host");
  EXPECT_EQ(other.region, "eu-west-1");
  ExpectError(
      ErrorCode::kInvalid, [&] { amazon.MoveTo("evil.host/x"); }, "region");
}

TEST(S3SettingsTest, EndpointsAreOriginsOnly) {
  for (const std::string bad : {"host:9000", "ftp://host", "http://host/path", "http://u:p@host"}) {
    StoreOptions options;
    options.s3_endpoint = bad;
    ExpectError(
        ErrorCode::kInvalid, [&] { Resolve("s3://bucket", options); }, "http(s)://HOST");
  }
}

}  // namespace
}  // namespace isthmus::store
