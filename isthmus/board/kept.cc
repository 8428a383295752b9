#include "isthmus/board/kept.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "isthmus/board/keys.h"
#include "isthmus/board/small_object.h"

namespace isthmus::board {

bool Kept::MayHave(VersionNumber version) const {
  return version > through || std::ranges::binary_search(versions, version);
}

Kept ReadKept(const Board& board, const std::string& run) {
  CheckRunName(run);
  try {
    const std::string key = KeptKey(run);
    const std::optional<std::string> text = board.store().Get(key, kMaxManifestBytes);
    if (!text) return {};
    return ReadText(board.store(), key, *text, [](const JsonFields& fields) {
      Kept kept;
      kept.through = fields.Count("through", 0, kMaxVersion);
      kept.versions = fields.Counts("versions");
      std::ranges::sort(kept.versions);
      return kept;
    });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kInvalid) return {};
    throw;
  }
}

void WriteKept(Board& board, const std::string& run, const Kept& kept) {
  const boost::json::object object = {
      {"format", kBoardFormat},
      {"run", run},
      {"through", kept.through},
      {"versions", boost::json::array(kept.versions.begin(), kept.versions.end())}};
  board.store().Put(KeptKey(run), AsBytes(ToText(object)));
}

}  // namespace isthmus::board
