// What the canaries of all engines have in common.
#ifndef ISTHMUS_ENGINE_CANARY_H_
#define ISTHMUS_ENGINE_CANARY_H_

#include <boost/json/value.hpp>
#include <string_view>

#include "isthmus/engine/answer.h"
#include "isthmus/engine/engine.h"

namespace isthmus::engine {

// Token ids that every vocabulary has. Engines cache whole blocks of a prompt, vLLM by default of
// 16 tokens, so that a short one would never come from a cache: this one has more than two blocks.
boost::json::array CanaryPrompt();

// Puts a salt that no request has had into the body, where the engine has a field for it.
void AddFreshSalt(std::string_view salt_field, boost::json::object* body);

// kCorrupt if the engine says that tokens of the prompt came from a cache; fine if it says nothing.
void RequireUncached(const Document& answer, std::string_view pointer);

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_CANARY_H_
