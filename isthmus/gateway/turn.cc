#include "isthmus/gateway/turn.h"

#include <array>

namespace isthmus::gateway {

std::string_view TurnEndName(TurnEnd end) {
  constexpr std::array<std::string_view, kTurnEnds> kNames = {
      "served",   "not_ready", "revoked", "unavailable", "shed",
      "deadline", "invalid",   "blocked", "failed",      "disconnected"};
  return kNames[static_cast<size_t>(end)];
}

}  // namespace isthmus::gateway
