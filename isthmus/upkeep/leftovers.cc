#include "isthmus/upkeep/leftovers.h"

#include <boost/json/array.hpp>

#include "isthmus/board/keys.h"
#include "isthmus/board/small_object.h"

namespace isthmus::upkeep {

SeenLeftovers ReadLeftovers(const board::Board& board, const std::string& run) {
  const std::string key = board::LeftoversKey(run);
  try {
    const auto text = board.store().Get(key, board::kMaxManifestBytes);
    if (!text) return {};
    return board::ReadText(board.store(), key, *text, [](const board::JsonFields& fields) {
      SeenLeftovers seen;
      for (const board::JsonFields& item : fields.Objects("seen")) {
        seen[item.Text("attempt")] = item.Time("since");
      }
      return seen;
    });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kInvalid) return {};
    throw;
  }
}

void WriteLeftovers(board::Board& board, const std::string& run, const SeenLeftovers& seen) {
  boost::json::array items;
  for (const auto& [attempt, since] : seen) {
    items.push_back(boost::json::object{{"attempt", attempt}, {"since", FormatTime(since)}});
  }
  const boost::json::object object = {
      {"format", board::kBoardFormat}, {"run", run}, {"seen", std::move(items)}};
  board.store().Put(board::LeftoversKey(run), AsBytes(board::ToText(object)));
}

}  // namespace isthmus::upkeep
