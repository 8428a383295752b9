#include "isthmus/engine/canary.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "isthmus/base/random.h"

namespace isthmus::engine {

namespace json = boost::json;

namespace {

constexpr int kPromptTokens = 40;

}  // namespace

json::array CanaryPrompt() {
  json::array prompt;
  for (int i = 0; i < kPromptTokens; ++i) prompt.emplace_back(1 + i % 3);
  return prompt;
}

void AddFreshSalt(std::string_view salt_field, json::object* body) {
  if (!salt_field.empty()) (*body)[salt_field] = "isthmus-canary-" + RandomId();
}

void RequireUncached(const Document& answer, std::string_view pointer) {
  if (answer.Find(pointer) == nullptr || answer.Count(pointer) == 0) return;
  answer.Refuse(ErrorCode::kCorrupt, pointer,
                "expected no token of a new prompt to come from a cache");
}

}  // namespace isthmus::engine
