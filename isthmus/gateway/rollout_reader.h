// Reads recorded rollouts from a store: docs/rollouts.md, "Objects". Blocking.
#ifndef ISTHMUS_GATEWAY_ROLLOUT_READER_H_
#define ISTHMUS_GATEWAY_ROLLOUT_READER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "isthmus/store/store.h"

namespace isthmus::gateway {

struct RolloutFilter {
  // Of lines, by their `time`: from `since` on, before `until`. RFC 3339 in UTC, of which a
  // beginning will do ("2026-01-31"); empty: no bound.
  std::string since;
  std::string until;
};

struct ReadRollouts {
  uint64_t objects = 0;
  uint64_t lines = 0;      // handed out
  uint64_t repeated = 0;   // of an id that was there before
  uint64_t malformed = 0;  // without an id: not handed out
};

class RolloutReader {
 public:
  // A line, without its end.
  using Visit = std::function<void(std::string_view)>;
  static constexpr uint64_t kMaxLineBytes = uint64_t{1} << 30;

  // kInvalid for a time of another form.
  RolloutReader(store::Store& store, const RolloutFilter& filter);

  // Every rollout once, object by object in the order of their keys: of each id the first line that
  // the filter lets pass. What an id costs is 16 bytes of memory and a place in a table. kCorrupt,
  // naming the object, for bytes that are not what a gateway wrote, and for lines longer than
  // kMaxLineBytes: what was visited by then is sound. kUnavailable as the store.
  ReadRollouts Read(const Visit& visit);

 private:
  std::vector<std::string> Keys();
  void ReadObject(const std::string& key, const Visit& visit);
  void TakeLine(std::string_view line, const Visit& visit);
  bool Passes(std::string_view line) const;

  store::Store& store_;
  RolloutFilter filter_;
  ReadRollouts counts_;
  std::unordered_set<std::string> seen_;  // digests of ids
};

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ROLLOUT_READER_H_
