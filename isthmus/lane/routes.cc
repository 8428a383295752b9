#include "isthmus/lane/routes.h"

#include <algorithm>
#include <array>

namespace isthmus::lane {
namespace {

struct Entry {
  std::string_view method;
  std::string_view path;
  Route route;
};

constexpr Route kGenerates = {RouteKind::kGenerate, AnswerShape::kObject, false};
constexpr Route kInforms = {RouteKind::kInform, AnswerShape::kObject, false};

// vLLM 0.32 and SGLang 0.5.23. Routes with the state of earlier answers (/v1/responses/ID), file
// uploads and everything that takes other routes' names in its body are left out.
constexpr std::array kRoutes = {
    Entry{"POST", "/v1/completions", kGenerates},
    Entry{"POST", "/v1/chat/completions", kGenerates},
    Entry{"POST", "/v1/chat/completions/batch", kGenerates},
    Entry{"POST", "/v1/messages", kGenerates},
    Entry{"POST", "/v1/responses", kGenerates},
    Entry{"POST", "/inference/v1/generate", {RouteKind::kGenerate, AnswerShape::kObject, true}},
    Entry{"POST", "/generate", {RouteKind::kGenerate, AnswerShape::kMetaInfo, true}},
    Entry{"POST", "/generative_scoring", kGenerates},
    Entry{"POST", "/v1/embeddings", kGenerates},
    Entry{"POST", "/v1/score", kGenerates},
    Entry{"POST", "/score", kGenerates},
    Entry{"POST", "/v1/rerank", kGenerates},
    Entry{"POST", "/rerank", kGenerates},
    Entry{"POST", "/classify", kGenerates},
    Entry{"POST", "/pooling", kGenerates},
    Entry{"GET", "/v1/models", kInforms},
    Entry{"GET", "/version", kInforms},
    Entry{"GET", "/model_info", kInforms},
    Entry{"GET", "/get_model_info", kInforms},
    Entry{"POST", "/tokenize", kInforms},
    Entry{"POST", "/detokenize", kInforms},
    Entry{"POST", "/v1/tokenize", kInforms},
    Entry{"POST", "/v1/detokenize", kInforms},
};

}  // namespace

Route RouteOf(std::string_view method, std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  const auto* const found = std::ranges::find_if(
      kRoutes, [&](const Entry& entry) { return entry.method == method && entry.path == path; });
  return found == kRoutes.end() ? Route{} : found->route;
}

}  // namespace isthmus::lane
