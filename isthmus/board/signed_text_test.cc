#include "isthmus/board/signed_text.h"

#include <gtest/gtest.h>

#include "isthmus/board/json_fields.h"
#include "tests/support/errors.h"

namespace isthmus::board {
namespace {

using testing::ExpectError;

const ObjectPlace kPlace = {"b", "runs/r/log/0000000001.json"};

class SignedTextTest : public ::testing::Test {
 protected:
  void ExpectRefused(const ObjectPlace& place, const std::string& text, const std::string& why) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { CheckSignature({key_.public_key()}, place, text); }, why);
  }

  SigningKey key_ = SigningKey::Generate();
  std::string text_ = SignText(key_, kPlace, "{\"a\":1}\n");
};

TEST_F(SignedTextTest, ItIsTheTextWithOneMoreMember) {
  EXPECT_TRUE(text_.starts_with(R"({"a":1,"signature":{"key":")" + key_.public_key().Hex()));
  const boost::json::value document = ParseJson(text_);
  const JsonFields fields(document, "");
  EXPECT_EQ(fields.Count("a"), 1u);
  EXPECT_EQ(fields.Object("signature").Text("ed25519").size(), 128u);
  EXPECT_NO_THROW(CheckSignature({key_.public_key()}, kPlace, text_));
  EXPECT_EQ(SignText(key_, kPlace, "{\"a\":1}\n"), text_);
}

TEST_F(SignedTextTest, AnyTrustedKeyIsEnoughAndAnyOtherIsNot) {
  const SigningKey other = SigningKey::Generate();
  EXPECT_NO_THROW(CheckSignature({other.public_key(), key_.public_key()}, kPlace, text_));
  ExpectError(
      ErrorCode::kCorrupt, [&] { CheckSignature({other.public_key()}, kPlace, text_); },
      key_.public_key().Hex(), "1 trusted");
}

TEST_F(SignedTextTest, EveryChangedByteIsNoticed) {
  for (size_t i = 0; i < text_.size(); ++i) {
    std::string changed = text_;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    ExpectError(ErrorCode::kCorrupt, [&] { CheckSignature({key_.public_key()}, kPlace, changed); });
  }
  for (size_t length = 0; length < text_.size(); ++length) {
    ExpectError(ErrorCode::kCorrupt,
                [&] { CheckSignature({key_.public_key()}, kPlace, text_.substr(0, length)); });
  }
}

TEST_F(SignedTextTest, ItIsForOnePlaceOnly) {
  ExpectRefused({"another", kPlace.key}, text_, "another place");
  ExpectRefused({kPlace.board, "runs/r/log/0000000002.json"}, text_, "another place");
  ExpectRefused({kPlace.board, "runs/s/log/0000000001.json"}, text_, "another place");
}

TEST_F(SignedTextTest, WhatIsNotSignedIsRefused) {
  ExpectRefused(kPlace, "{\"a\":1}\n", "not signed");
  ExpectRefused(kPlace, "", "not signed");
  ExpectRefused(kPlace, text_ + "\n", "not signed");
  ExpectRefused(kPlace, text_ + text_, "the signature of key");
}

}  // namespace
}  // namespace isthmus::board
