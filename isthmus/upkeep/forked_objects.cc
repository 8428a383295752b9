#include "isthmus/upkeep/forked_objects.h"

#include <fmt/format.h>

#include "isthmus/base/error.h"
#include "isthmus/board/keys.h"

namespace isthmus::upkeep {
namespace {

using board::Board;
using board::Manifest;

// nullopt if the run has no version yet.
std::optional<Manifest> ReadFirst(const Board& board, const std::string& run) {
  const std::string key = board::LogKey(run, 1);
  const auto text = board.store().Get(key, board::kMaxManifestBytes);
  if (!text) return std::nullopt;
  try {
    Manifest manifest = Manifest::Parse(*text);
    if (manifest.run == run && manifest.version == 1) return manifest;
    Throw(ErrorCode::kCorrupt, "the entry is of run {} version {}", manifest.run, manifest.version);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {} in {}", key, board.store().Describe()));
  }
}

}  // namespace

std::set<std::string> ForkedObjects(const Board& board, const std::string& run, ThreadPool& pool) {
  std::vector<std::string> others = board.Runs();
  std::erase(others, run);
  std::vector<std::optional<Manifest>> first(others.size());
  pool.ParallelFor(others.size(), [&](size_t i) { first[i] = ReadFirst(board, others[i]); });
  std::set<std::string> keys;
  const std::string data = board::DataPrefix(run);
  for (const std::optional<Manifest>& manifest : first) {
    if (!manifest) continue;
    for (const board::Payload& payload : manifest->payloads) {
      for (const board::PayloadPart& part : payload.parts) {
        if (part.key.starts_with(data)) keys.insert(part.key);
      }
    }
  }
  return keys;
}

}  // namespace isthmus::upkeep
