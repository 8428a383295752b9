#include "isthmus/base/ed25519.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus {
namespace {

using testing::ExpectError;
using testing::TempDir;

TEST(Ed25519Test, TheVectorsOfRfc8032Verify) {
  // RFC 8032, section 7.1, TEST 2 and TEST 3.
  const struct {
    std::string_view key, message, signature;
  } vectors[] = {{"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
                  "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                  "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
                 {"fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
                  "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                  "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"}};
  for (const auto& vector : vectors) {
    const auto key = PublicKey::ParseHex(vector.key);
    auto signature = Signature::ParseHex(vector.signature);
    EXPECT_TRUE(VerifySignature(key, AsBytes(vector.message), signature));
    EXPECT_FALSE(VerifySignature(key, AsBytes("another"), signature));
    signature.bytes[40] ^= std::byte{1};
    EXPECT_FALSE(VerifySignature(key, AsBytes(vector.message), signature));
  }
}

TEST(Ed25519Test, WhatIsNoKeyVerifiesNothing) {
  PublicKey key;
  for (std::byte& byte : key.bytes) byte = std::byte{0xff};
  EXPECT_FALSE(VerifySignature(key, AsBytes("a"), Signature()));
  EXPECT_FALSE(VerifySignature(SigningKey::Generate().public_key(), {}, Signature()));
}

TEST(Ed25519Test, AKeyComesBackFromItsFilesAndSignsAlike) {
  const TempDir dir;
  const SigningKey key = SigningKey::Generate();
  key.Save(dir / "k");
  const SigningKey loaded = SigningKey::Load(dir / "k");
  EXPECT_EQ(loaded.Sign(AsBytes("message")), key.Sign(AsBytes("message")));
  EXPECT_EQ(LoadPublicKeys(dir / "k.pub"), std::vector{key.public_key()});
  EXPECT_TRUE(VerifySignature(key.public_key(), AsBytes("message"), key.Sign(AsBytes("message"))));
  EXPECT_NE(SigningKey::Generate().public_key(), key.public_key());
}

TEST(Ed25519Test, APrivateKeyIsItsOwnersAlone) {
  const TempDir dir;
  SigningKey::Generate().Save(dir / "k");
  struct stat status {};
  ASSERT_EQ(::stat((dir / "k").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST(Ed25519Test, KeysAreNotReplaced) {
  const TempDir dir;
  const SigningKey key = SigningKey::Generate();
  key.Save(dir / "k");
  const auto save = [&] { SigningKey::Generate().Save(dir / "k"); };
  ExpectError(ErrorCode::kConflict, save, "k.pub");
  fs::remove(dir / "k.pub");
  ExpectError(ErrorCode::kConflict, save, "/k:");
  EXPECT_EQ(SigningKey::Load(dir / "k").public_key(), key.public_key());
}

TEST(Ed25519Test, FilesOfSeveralKeysAndOfOtherThings) {
  const TempDir dir;
  const SigningKey a = SigningKey::Generate();
  const SigningKey b = SigningKey::Generate();
  a.Save(dir / "a");
  b.Save(dir / "b");
  const std::string both = ReadFile(dir / "a.pub", 1000) + "\n" + ReadFile(dir / "b.pub", 1000);
  EXPECT_EQ(LoadPublicKeys(dir.Write("both", both)), (std::vector{a.public_key(), b.public_key()}));
  for (const std::string text : {"", "x", "-----BEGIN PUBLIC KEY-----\n"}) {
    const fs::path file = dir.Write("bad", text);
    ExpectError(
        ErrorCode::kInvalid, [&] { LoadPublicKeys(file); }, "bad");
    ExpectError(
        ErrorCode::kInvalid, [&] { SigningKey::Load(file); }, "bad", "Ed25519");
  }
  ExpectError(
      ErrorCode::kInvalid, [&] { SigningKey::Load(dir / "a.pub"); }, "a.pub");
  ExpectError(
      ErrorCode::kInvalid, [&] { LoadPublicKeys(dir / "a"); }, "BEGIN PUBLIC KEY");
  ExpectError(
      ErrorCode::kNotFound, [&] { SigningKey::Load(dir / "none"); }, "none");
}

}  // namespace
}  // namespace isthmus
