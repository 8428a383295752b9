#include "isthmus/base/digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/errors.h"

namespace isthmus {
namespace {

using testing::ExpectError;

constexpr std::string_view kShaOfAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(DigestTest, Sha256GivesTheVectorsOfFips180) {
  EXPECT_EQ(Sha256(AsBytes("abc")).Hex(), kShaOfAbc);
  EXPECT_EQ(Sha256({}).Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, Sha256StreamGivesTheVectorOfAMillionLetters) {
  const std::string thousand(1000, 'a');
  Sha256Stream stream;
  for (int i = 0; i < 1000; ++i) stream.Update(AsBytes(thousand));
  EXPECT_EQ(stream.Finish().Hex(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// From xxHash's own vectors (tests/sanity_test_vectors.h), seed 0.
TEST(DigestTest, Xxh3OfNothingIsTheKnownVector) {
  EXPECT_EQ(Xxh3_128({}).Hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Xxh3_64({}), 0x2d06800538d394c2u);
}

TEST(DigestTest, StreamsGiveTheDigestOfTheWholeHoweverItIsCut) {
  const std::string text(100'000, 'x');
  for (size_t step : {1u, 7u, 4096u, 65'537u}) {
    Sha256Stream sha;
    Xxh128Stream xxh;
    for (size_t at = 0; at < text.size(); at += step) {
      const ByteSpan piece = AsBytes(text).subspan(at, std::min<size_t>(step, text.size() - at));
      sha.Update(piece);
      xxh.Update(piece);
    }
    EXPECT_EQ(sha.Finish(), Sha256(AsBytes(text)));
    EXPECT_EQ(xxh.Finish(), Xxh3_128(AsBytes(text)));
  }
}

TEST(DigestTest, XxhStreamIsReadyForNewDataAfterFinish) {
  Xxh128Stream stream;
  stream.Update(AsBytes("one"));
  EXPECT_EQ(stream.Finish(), Xxh3_128(AsBytes("one")));
  stream.Update(AsBytes("two"));
  EXPECT_EQ(stream.Finish(), Xxh3_128(AsBytes("two")));
  EXPECT_EQ(stream.Finish(), Xxh3_128({}));
}

TEST(DigestTest, MovedXxhStreamGoesOn) {
  Xxh128Stream first;
  first.Update(AsBytes("ab"));
  Xxh128Stream second = std::move(first);
  second.Update(AsBytes("c"));
  EXPECT_EQ(second.Finish(), Xxh3_128(AsBytes("abc")));
}

TEST(DigestTest, Sha256TextRoundTrips) {
  const std::string text = FormatSha256(Sha256(AsBytes("abc")));
  EXPECT_EQ(text, "sha256:" + std::string(kShaOfAbc));
  EXPECT_EQ(ParseSha256(text), Sha256(AsBytes("abc")));
}

TEST(DigestTest, ParseSha256RefusesEveryOtherForm) {
  const std::string hex(kShaOfAbc);
  std::string upper = hex;
  upper[0] = 'B';
  for (const std::string& text :
       {std::string(), hex, "sha256:" + hex.substr(1), "sha256:" + hex + "0", "SHA256:" + hex,
        "sha512:" + hex, "sha256:" + upper, "sha256:g" + hex.substr(1),
        "sha256: " + hex.substr(1)}) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseSha256(text); }, "read digest");
  }
}

TEST(DigestTest, CopyRefusesAnotherLength) {
  const ByteVector bytes(17);
  ExpectError(
      ErrorCode::kCorrupt, [&] { Xxh128Digest::Copy(bytes); }, "17 bytes", "expected 16");
  EXPECT_EQ(Xxh128Digest::Copy(ByteSpan(bytes).first(16)), Xxh128Digest());
}

}  // namespace
}  // namespace isthmus
