#include "isthmus/board/pin.h"

#include "isthmus/board/keys.h"
#include "isthmus/board/small_object.h"

namespace isthmus::board {
namespace {

void CheckPinName(const std::string& name) {
  try {
    CheckRunName(name);
  } catch (const Error& error) {
    throw error.Annotated("name a pin (as runs are named)");
  }
}

}  // namespace

void PutPin(Board& board, const std::string& run, const Pin& pin) {
  CheckPinName(pin.name);
  if (!board.Exists(run, pin.version)) {
    Throw(ErrorCode::kNotFound, "pin version {} of run {} in {}: no such version", pin.version, run,
          board.store().Describe());
  }
  const boost::json::object object = {{"format", kBoardFormat},
                                      {"run", run},
                                      {"version", pin.version},
                                      {"expires_at", FormatTime(pin.expires_at)}};
  board.store().Put(PinKey(run, pin.name), AsBytes(ToText(object)));
}

bool RemovePin(Board& board, const std::string& run, const std::string& name) {
  CheckRunName(run);
  CheckPinName(name);
  const std::string key = PinKey(run, name);
  if (!board.store().Size(key)) return false;
  board.store().Delete(key);
  return true;
}

std::vector<Pin> ListPins(const Board& board, const std::string& run) {
  CheckRunName(run);
  const std::string prefix = PinPrefix(run);
  std::vector<Pin> pins;
  for (const std::string& key : board.store().List(prefix)) {
    Pin pin;
    pin.name = key.substr(prefix.size(), key.size() - prefix.size() - std::string(".json").size());
    if (key != PinKey(run, pin.name)) continue;
    const auto read = ReadSmall(board.store(), key, [&](const JsonFields& fields) {
      pin.version = fields.Count("version", 1, kMaxVersion);
      pin.expires_at = fields.Time("expires_at");
      return pin;
    });
    if (read) pins.push_back(*read);  // else: removed meanwhile
  }
  return pins;
}

}  // namespace isthmus::board
