// What ranks tell each other through the store, as JSON (docs/ranks.md, "Steps").
#ifndef ISTHMUS_RANKS_MESSAGES_H_
#define ISTHMUS_RANKS_MESSAGES_H_

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/board/manifest.h"
#include "isthmus/ranks/assignment.h"
#include "isthmus/ranks/share.h"

namespace isthmus::ranks {

// Readers throw kCorrupt, naming the field, for what breaks a rule.

// The lead's call to publish a version.
struct Call {
  board::VersionNumber version = board::kNoVersion;
  std::string attempt;
  int64_t step = 0;
  uint32_t ranks = 0;
  Sha256Digest outline;

  bool operator==(const Call&) const = default;
};
boost::json::object ToJson(const Call& call);
Call ReadCall(const board::JsonFields& fields);

// What a rank holds.
boost::json::object ToJson(const std::vector<HeldRows>& claim);
std::vector<HeldRows> ReadClaim(const board::JsonFields& fields);

// The claims of all.
boost::json::object ToJson(const std::vector<Holding>& plan);
std::vector<Holding> ReadPlan(const board::JsonFields& fields);

// The slices that a rank sends to one owner.
struct SentSlices {
  uint32_t owner = 0;
  uint64_t bytes = 0;
  Sha256Digest sha256;
};
boost::json::object ToJson(const std::vector<SentSlices>& sent);
std::vector<SentSlices> ReadSentSlices(const board::JsonFields& fields);

// The digests of a chunk's leaves: of its pieces one after another.
struct ChunkProof {
  size_t chunk = 0;
  uint64_t changed = 0;  // units
  std::vector<Xxh128Digest> before;
  std::vector<Xxh128Digest> after;
};
struct Receipt {
  Sha256Digest plan;  // of the plan's text
  std::vector<ChunkProof> chunks;
  board::Payload payload;  // a patch: this rank's parts
};
boost::json::object ToJson(const Receipt& receipt);
// For `version` of `run`.
Receipt ReadReceipt(const board::JsonFields& fields, const std::string& run,
                    board::VersionNumber version);

// Why a rank, or the lead for all, does not go on.
struct Refusal {
  ErrorCode code = ErrorCode::kInternal;
  std::string reason;
  bool baselines = false;  // they are not the head, and must be built anew
};
boost::json::object ToJson(const Refusal& refusal);
Refusal ReadRefusal(const board::JsonFields& fields);

// What ranks compared with is not the version before.
struct WrongBaselines : Error {
  using Error::Error;
};

// The version that is about to be committed, or why there is none.
struct Verdict {
  std::optional<Sha256Digest> digest;
  std::optional<Refusal> refused;
};
boost::json::object ToJson(const Verdict& verdict);
Verdict ReadVerdict(const board::JsonFields& fields);

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_MESSAGES_H_
