#include "isthmus/store/aws_credentials.h"

#include <gtest/gtest.h>

#include <map>

#include "isthmus/base/file.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;
using testing::TempDir;

class AwsCredentialsTest : public ::testing::Test {
 protected:
  AwsCredentials Credentials() const {
    return AwsCredentials([this](const std::string& name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::string() : found->second;
    });
  }
  TempDir dir_;
  std::map<std::string, std::string> variables_ = {
      {"AWS_EC2_METADATA_DISABLED", "true"},
      {"AWS_SHARED_CREDENTIALS_FILE", (dir_ / "credentials").string()},
      {"AWS_CONFIG_FILE", (dir_ / "config").string()}};
};

TEST_F(AwsCredentialsTest, TheEnvironmentComesFirst) {
  dir_.Write("credentials", "[default]\naws_access_key_id = F\naws_secret_access_key = f\n");
  EXPECT_EQ(Credentials().Get().key_id, "F");
  variables_["AWS_ACCESS_KEY_ID"] = "E";
  EXPECT_EQ(Credentials().Get().key_id, "F");  // half of a pair is none
  variables_["AWS_SECRET_ACCESS_KEY"] = "e";
  variables_["AWS_SESSION_TOKEN"] = "t";
  EXPECT_EQ(Credentials().Get().key_id, "E");
  EXPECT_EQ(Credentials().Get().session_token, "t");
}

TEST_F(AwsCredentialsTest, RefusedKeysAreReadAnewFromTheFile) {
  dir_.Write("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = a\n");
  AwsCredentials credentials = Credentials();
  const auto first = credentials.Get();
  EXPECT_FALSE(credentials.Renew(first));  // the same again
  dir_.Write("credentials", "[default]\naws_access_key_id = B\naws_secret_access_key = b\n");
  EXPECT_EQ(credentials.Get().key_id, "A");
  EXPECT_TRUE(credentials.Renew(first));
  EXPECT_EQ(credentials.Get().key_id, "B");
  EXPECT_TRUE(credentials.Renew(first));  // by another thread, meanwhile
}

TEST_F(AwsCredentialsTest, NoneAtAllIsInvalidAndSaysWhereItLooked) {
  AwsCredentials credentials = Credentials();
  ExpectError(
      ErrorCode::kInvalid, [&] { credentials.Get(); }, "AWS_ACCESS_KEY_ID",
      (dir_ / "credentials").string());
}

TEST_F(AwsCredentialsTest, AProfileThatIsNotThereOrNotSupportedIsInvalid) {
  variables_["AWS_PROFILE"] = "x";
  AwsCredentials missing = Credentials();
  ExpectError(
      ErrorCode::kInvalid, [&] { missing.Get(); }, "no profile x");
  dir_.Write("config", "[profile x]\nsso_session = s\n");
  AwsCredentials sso = Credentials();
  ExpectError(
      ErrorCode::kInvalid, [&] { sso.Get(); }, "sso_session", "not supported");
}

TEST_F(AwsCredentialsTest, KeysAreNotAskedForInTheClearAcrossANetwork) {
  for (const std::string url : {"http://example.org/x", "http://169.254.1.1/", "http://127.evil"}) {
    variables_["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = url;
    AwsCredentials credentials = Credentials();
    ExpectError(
        ErrorCode::kInvalid, [&] { credentials.Get(); }, url);
  }
}

TEST(ParseCredentialsTest, ReadsWhatEndpointsAnswer) {
  const TimedCredentials read = ParseCredentials(
      R"({"Code":"Success","AccessKeyId":"A","SecretAccessKey":"S","Token":"T","Expiration":"2026-01-31T09:30:00Z"})");
  EXPECT_EQ(read.keys.key_id, "A");
  EXPECT_EQ(read.keys.secret, "S");
  EXPECT_EQ(read.keys.session_token, "T");
  EXPECT_EQ(FormatTime(*read.expires), "2026-01-31T09:30:00.000Z");
  EXPECT_FALSE(ParseCredentials(R"({"AccessKeyId":"A","SecretAccessKey":"S"})").expires);
}

TEST(ParseCredentialsTest, AnythingElseIsCorruptAndNotRepeated) {
  for (const std::string bad :
       {"", "[]", "secret", R"({"AccessKeyId":"secret"})",
        R"({"AccessKeyId":1,"SecretAccessKey":"secret"})",
        R"({"AccessKeyId":"A","SecretAccessKey":"secret","Expiration":"soon"})"}) {
    try {
      ParseCredentials(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
      EXPECT_EQ(std::string(error.what()).find("secret"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace isthmus::store
