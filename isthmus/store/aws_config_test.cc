#include "isthmus/store/aws_config.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;
using testing::TempDir;

Environment With(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

TEST(ParseAwsFileTest, GivesSectionsAndSettings) {
  const auto file = ParseAwsFile(
      "# comment\r\n; another\n[default]\nRegion = eu-west-1\naws_secret_access_key = a=b/c+#d \n"
      "s3 =\n  addressing_style = path\n\n[profile   x y]\nregion=\n[default]\noutput = json");
  EXPECT_EQ(file.at("default").at("region"), "eu-west-1");
  EXPECT_EQ(file.at("default").at("aws_secret_access_key"), "a=b/c+#d");
  EXPECT_EQ(file.at("default").at("output"), "json");
  EXPECT_FALSE(file.at("default").contains("addressing_style"));
  EXPECT_EQ(file.at("profile x y").at("region"), "");
}

TEST(ParseAwsFileTest, NamesTheLineAndNotItsText) {
  for (const std::string bad :
       {"[default]\nsecret-text", "secret = text", "[default\n", "[a]\n= x"}) {
    try {
      ParseAwsFile(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalid);
      EXPECT_EQ(std::string(error.what()).find("text"), std::string::npos);
    }
  }
}

class AwsProfileTest : public ::testing::Test {
 protected:
  AwsProfile Read(const std::string& profile = "") const {
    return ReadAwsProfile(With({{"AWS_SHARED_CREDENTIALS_FILE", (dir_ / "credentials").string()},
                                {"AWS_CONFIG_FILE", (dir_ / "config").string()},
                                {"AWS_PROFILE", profile}}));
  }
  TempDir dir_;
};

TEST_F(AwsProfileTest, KeysOfTheCredentialsFileWin) {
  dir_.Write("credentials", "[default]\naws_access_key_id = A\n[x]\naws_access_key_id = X\n");
  dir_.Write("config", "[default]\naws_access_key_id = B\nregion = r\n[profile x]\nregion = rx\n");
  EXPECT_EQ(Read().Setting("aws_access_key_id"), "A");
  EXPECT_EQ(Read().Setting("region"), "r");
  EXPECT_EQ(Read("x").Setting("aws_access_key_id"), "X");
  EXPECT_EQ(Read("x").Setting("region"), "rx");
  EXPECT_FALSE(Read("y").found);
}

TEST_F(AwsProfileTest, FilesThatDoNotExistAreEmpty) {
  const AwsProfile profile = Read();
  EXPECT_FALSE(profile.found);
  EXPECT_EQ(profile.Setting("region"), "");
  EXPECT_EQ(ReadAwsProfile(With({})).name, "default");
}

TEST_F(AwsProfileTest, ABrokenFileIsNamed) {
  dir_.Write("config", "nonsense");
  ExpectError(
      ErrorCode::kInvalid, [&] { Read(); }, (dir_ / "config").string(), "line 1");
}

TEST_F(AwsProfileTest, TheHomeDirectoryHasThemElse) {
  fs::create_directory(dir_ / ".aws");
  dir_.Write(".aws/config", "[default]\nregion = home\n");
  EXPECT_EQ(ReadAwsProfile(With({{"HOME", dir_.path().string()}})).Setting("region"), "home");
}

}  // namespace
}  // namespace isthmus::store
