// Payloads that are added to a version after its commit (docs/board.md, "Payloads added later"):
// anchors, so that a join need not begin at the first version, and patches that skip versions.
#ifndef ISTHMUS_BOARD_EXTRA_H_
#define ISTHMUS_BOARD_EXTRA_H_

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/board/board.h"

namespace isthmus::board {

// What the key of such an object says.
struct Extra {
  VersionNumber version = kNoVersion;
  PayloadKind kind = PayloadKind::kAnchor;
  VersionNumber base = kNoVersion;  // patches: a version before this one

  auto operator<=>(const Extra&) const = default;
};

std::string ExtraKey(const std::string& run, const Extra& extra);
// nullopt for a key that no such object has.
std::optional<Extra> ExtraOf(const std::string& run, std::string_view key);

// All that the run has, ascending. One listing.
std::vector<Extra> ListExtras(const Board& board, const std::string& run);

// The payload, whose digest must be that of the version; nullopt if there is no such object.
// kCorrupt if it breaks a rule, is for another version's digest, or is not signed by a trusted key.
std::optional<Payload> ReadExtra(const Board& board, const std::string& run, const Extra& extra,
                                 const Sha256Digest& digest);

// Adds a payload to the version of `manifest`, signed if the board has a signer. Its parts must be
// durable. False if there is one of this kind and base already: payloads are never replaced.
bool AddExtra(Board& board, const Manifest& manifest, const Payload& payload);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_EXTRA_H_
