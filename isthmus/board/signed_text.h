// Signatures of a board's objects (docs/board.md, "Signatures"). Pure.
#ifndef ISTHMUS_BOARD_SIGNED_TEXT_H_
#define ISTHMUS_BOARD_SIGNED_TEXT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/ed25519.h"

namespace isthmus::board {

// What a program signs with, and whose signatures it wants to see.
struct Trust {
  std::optional<SigningKey> signer;  // none: what is written is not signed
  std::vector<PublicKey> trusted;    // empty: signatures are not looked at
};

// Where an object stands: a signature is for this place only.
struct ObjectPlace {
  std::string_view board;  // its uuid
  std::string_view key;
};

// `text`, a JSON object that ends with "}\n" and has at least one member, with a last member
// "signature".
std::string SignText(const SigningKey& signer, const ObjectPlace& place, std::string_view text);

// Throws kCorrupt unless `text` is what SignText makes with one of the trusted keys for this place.
void CheckSignature(const std::vector<PublicKey>& trusted, const ObjectPlace& place,
                    std::string_view text);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_SIGNED_TEXT_H_
