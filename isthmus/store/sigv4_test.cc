#include "isthmus/store/sigv4.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isthmus/base/digest.h"

namespace isthmus::store {
namespace {

using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
const Credentials kExample = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                              ""};
const WallTime kTime = ParseTime("2013-05-24T00:00:00.000Z");
const std::string kEmpty = Sha256({}).Hex();

std::string Authorization(const RequestToSign& request,
                          const SigningDialect& dialect = kAmazonDialect) {
  const HttpHeaders headers = Sign(request, dialect, kExample, "us-east-1", kTime);
  EXPECT_EQ(headers.back().first, "authorization");
  return headers.back().second;
}

RequestToSign Request(std::string path) {
  return {"GET", "examplebucket.s3.amazonaws.com", std::move(path), {}, {}, kEmpty};
}

TEST(SignTest, GetsARangeAsInAmazonsExample) {
  RequestToSign request = Request("/test.txt");
  request.headers = {{"range", "bytes=0-9"}};
  EXPECT_EQ(Authorization(request),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
            "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
            "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(SignTest, PutsAnObjectAsInAmazonsExample) {
  RequestToSign request = Request("/test%24file.text");
  request.method = "PUT";
  request.headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                     {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
  request.payload_sha256 = Sha256(AsBytes("Welcome to Amazon S3.")).Hex();
  EXPECT_THAT(Authorization(request),
              EndsWith("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

TEST(SignTest, ReadsASubresourceAsInAmazonsExample) {
  RequestToSign request = Request("/");
  request.query = {{"lifecycle", ""}};
  EXPECT_THAT(Authorization(request),
              EndsWith("fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
}

TEST(SignTest, ListsABucketAsInAmazonsExample) {
  RequestToSign request = Request("/");
  request.query = {{"prefix", "J"}, {"max-keys", "2"}};  // sorted for the signature
  EXPECT_THAT(Authorization(request),
              EndsWith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

TEST(SignTest, ASessionTokenIsSentAndSigned) {
  Credentials credentials = kExample;
  credentials.session_token = "token";
  const HttpHeaders headers = Sign(Request("/k"), kAmazonDialect, credentials, "r", kTime);
  EXPECT_THAT(headers, Contains(Pair("x-amz-security-token", "token")));
  EXPECT_THAT(headers.back().second, HasSubstr("x-amz-date;x-amz-security-token,"));
}

TEST(SignTest, GoogleHasNamesOfItsOwn) {
  const HttpHeaders headers = Sign(Request("/k"), kGoogleDialect, kExample, "auto", kTime);
  EXPECT_THAT(headers, Contains(Pair("x-goog-date", "20130524T000000Z")));
  EXPECT_THAT(headers, Contains(Pair("x-goog-content-sha256", kEmpty)));
  EXPECT_THAT(headers.back().second,
              StartsWith("GOOG4-HMAC-SHA256 "
                         "Credential=AKIAIOSFODNN7EXAMPLE/20130524/auto/storage/goog4_request, "));
}

TEST(CanonicalQueryTest, IsEncodedAndSortedByNameThenValue) {
  EXPECT_EQ(CanonicalQuery({{"prefix", "a b/c+~"}, {"list-type", "2"}, {"uploads", ""}}),
            "list-type=2&prefix=a%20b%2Fc%2B~&uploads=");
  EXPECT_EQ(CanonicalQuery({}), "");
}

}  // namespace
}  // namespace isthmus::store
