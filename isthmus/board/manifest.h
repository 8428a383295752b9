// The log entry of one version (docs/board.md, "Manifest").
#ifndef ISTHMUS_BOARD_MANIFEST_H_
#define ISTHMUS_BOARD_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/base/digest.h"

namespace isthmus::board {

// Versions of a run are 1, 2, 3, …; 0 means none.
using VersionNumber = uint64_t;
inline constexpr VersionNumber kNoVersion = 0;
// Ten decimal digits: what the keys of the log have room for.
inline constexpr VersionNumber kMaxVersion = 9'999'999'999;

inline constexpr uint64_t kBoardFormat = 1;
inline constexpr uint64_t kMaxManifestBytes = 64 << 20;

// Throws kInvalid unless `run` is 1 to 128 characters of [A-Za-z0-9._-], not beginning with '.'.
void CheckRunName(std::string_view run);

enum class PayloadKind { kAnchor, kPatch };

// One object of a payload.
struct PayloadPart {
  std::string key;
  uint64_t bytes = 0;
  Sha256Digest sha256;
  std::string path;  // anchors: the file of the checkpoint that this object is; patches: empty
};

struct Payload {
  PayloadKind kind = PayloadKind::kAnchor;
  VersionNumber base = kNoVersion;  // patches: the version that it applies to
  std::string encoding;             // patches: "direct", or several with '+' between
  std::vector<PayloadPart> parts;

  uint64_t bytes() const;
};

// The version of another run that a run starts from.
struct ForkPoint {
  std::string run;
  VersionNumber version = kNoVersion;

  bool operator==(const ForkPoint&) const = default;
};

struct Manifest {
  std::string run;
  VersionNumber version = kNoVersion;
  VersionNumber parent = kNoVersion;  // none for the first version
  // Version 1 only: the same checkpoint in another run, whose objects this entry may name.
  std::optional<ForkPoint> fork;
  uint64_t epoch = 0;           // of the writer that committed it
  std::optional<int64_t> step;  // the trainer's optimizer step
  std::string view;             // for example "bf16"
  Sha256Digest digest;          // the version's digest (tensor/version_table.h)
  uint64_t tensors = 0;
  uint64_t elements = 0;          // units of all tensors
  uint64_t changed = 0;           // units that differ from the parent
  uint64_t checkpoint_bytes = 0;  // of all files
  std::vector<Payload> payloads;
  std::map<std::string, Sha256Digest> files;  // the checkpoint's files that are not weights
  std::map<std::string, std::string> meta;    // the user's
  WallTime created_at;
  std::string producer;

  uint64_t payload_bytes() const;  // of all payloads
  bool has_anchor() const;         // among them

  std::string Serialize() const;
  // kInvalid for a newer format ("board format 2, this program reads 1"), kCorrupt for everything
  // else: wrong types, missing keys, numbers out of range, keys that CheckKey refuses, paths that
  // codec::CheckFilePath refuses, base >= version, parent >= version, an anchor with a base,
  // a fork above version 1 or from the run itself, objects of other runs. Unknown keys are ignored.
  static Manifest Parse(std::string_view json);
};

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_MANIFEST_H_
