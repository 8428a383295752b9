// Where a publisher keeps its baseline if nobody says.
#ifndef ISTHMUS_PUBLISH_BASELINE_PLACE_H_
#define ISTHMUS_PUBLISH_BASELINE_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "isthmus/base/file.h"
#include "isthmus/board/board.h"

namespace isthmus::publish {

// A directory for this run of this board, and for this rank of many if there are, in the user's
// cache (XDG_CACHE_HOME, else HOME/.cache): the board can rebuild it. kInvalid if neither is set.
fs::path DefaultBaseline(const board::Board& board, const std::string& run,
                         std::optional<uint32_t> rank = {});

}  // namespace isthmus::publish

#endif  // ISTHMUS_PUBLISH_BASELINE_PLACE_H_
