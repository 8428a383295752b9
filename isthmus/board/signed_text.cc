#include "isthmus/board/signed_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::board {
namespace {

constexpr std::string_view kEnd = "}\n";
constexpr std::string_view kBeforeKey = R"(,"signature":{"key":")";
constexpr std::string_view kBeforeSignature = R"(","ed25519":")";
constexpr std::string_view kAfter = "\"}}\n";
constexpr size_t kKeyDigits = 2 * sizeof(PublicKey);
constexpr size_t kSignatureDigits = 2 * sizeof(Signature);
constexpr size_t kMemberBytes =
    kBeforeKey.size() + kKeyDigits + kBeforeSignature.size() + kSignatureDigits + kAfter.size();

std::string MessageOf(const ObjectPlace& place, std::string_view body) {
  return fmt::format("isthmus signed object 1\n{}\n{}\n{}{}", place.board, place.key, body, kEnd);
}

// A signed text, taken apart.
struct Signed {
  std::string_view body;  // up to the member, without the end
  std::string_view key;
  std::string_view signature;
};

std::optional<Signed> Split(std::string_view text) {
  if (text.size() <= kMemberBytes || !text.ends_with(kAfter)) return std::nullopt;
  std::string_view member = text.substr(text.size() - kMemberBytes);
  Signed parts;
  parts.body = text.substr(0, text.size() - kMemberBytes);
  if (!member.starts_with(kBeforeKey)) return std::nullopt;
  member.remove_prefix(kBeforeKey.size());
  parts.key = member.substr(0, kKeyDigits);
  member.remove_prefix(kKeyDigits);
  if (!member.starts_with(kBeforeSignature)) return std::nullopt;
  member.remove_prefix(kBeforeSignature.size());
  parts.signature = member.substr(0, kSignatureDigits);
  return parts;
}

}  // namespace

std::string SignText(const SigningKey& signer, const ObjectPlace& place, std::string_view text) {
  if (!text.ends_with(kEnd)) Throw(ErrorCode::kInternal, "sign {}: no JSON object", place.key);
  const std::string_view body = text.substr(0, text.size() - kEnd.size());
  const Signature signature = signer.Sign(AsBytes(MessageOf(place, body)));
  return fmt::format("{}{}{}{}{}{}", body, kBeforeKey, signer.public_key().Hex(), kBeforeSignature,
                     signature.Hex(), kAfter);
}

void CheckSignature(const std::vector<PublicKey>& trusted, const ObjectPlace& place,
                    std::string_view text) {
  const std::optional<Signed> parts = Split(text);
  if (!parts) {
    Throw(ErrorCode::kCorrupt, "not signed, expected the signature of one of {} trusted keys",
          trusted.size());
  }
  const auto key = PublicKey::ParseHex(parts->key);
  if (std::ranges::find(trusted, key) == trusted.end()) {
    Throw(ErrorCode::kCorrupt, "signed with the key {}, which is none of {} trusted ones",
          parts->key, trusted.size());
  }
  const auto signature = Signature::ParseHex(parts->signature);
  if (VerifySignature(key, AsBytes(MessageOf(place, parts->body)), signature)) return;
  Throw(ErrorCode::kCorrupt,
        "the signature of key {} is wrong: the text was changed, or is of another place",
        parts->key);
}

}  // namespace isthmus::board
