#include "isthmus/publish/baseline_place.h"

#include <fmt/format.h>

#include <cstdlib>

#include "isthmus/base/error.h"

namespace isthmus::publish {
namespace {

fs::path CacheRoot() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  const char* home = std::getenv("HOME");             // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "isthmus";
  if (home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "isthmus";
  Throw(ErrorCode::kInvalid,
        "choose a baseline directory: neither --baseline, XDG_CACHE_HOME nor HOME is set");
}

}  // namespace

fs::path DefaultBaseline(const board::Board& board, const std::string& run,
                         std::optional<uint32_t> rank) {
  if (!rank) return CacheRoot() / board.uuid() / run;
  // A machine may run several ranks.
  return CacheRoot() / (board.uuid() + "-ranks") / run / fmt::format("{}", *rank);
}

}  // namespace isthmus::publish
