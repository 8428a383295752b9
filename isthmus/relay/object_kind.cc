#include "isthmus/relay/object_kind.h"

#include <algorithm>
#include <array>
#include <string>

#include "isthmus/store/store.h"

namespace isthmus::relay {
namespace {

constexpr std::string_view kRuns = "runs/";
constexpr std::array<std::string_view, 5> kFixedFolders = {"log/", "data/", "extra/", "writers/",
                                                           "revoked/"};

}  // namespace

// What can be made a key by one more character, or is one.
bool MayBeginKeys(std::string_view prefix) {
  return prefix.empty() || store::IsKey(prefix) || store::IsKey(std::string(prefix) + "x");
}

std::string_view RunPrefixOf(std::string_view key) {
  if (!key.starts_with(kRuns)) return {};
  const size_t slash = key.find('/', kRuns.size());
  return slash == key.npos ? std::string_view() : key.substr(0, slash + 1);
}

ObjectKind KindOf(std::string_view key) {
  if (key == "board.json") return ObjectKind::kImmutable;
  const std::string_view run = RunPrefixOf(key);
  if (run.empty()) return ObjectKind::kForeign;
  const std::string_view rest = key.substr(run.size());
  const bool fixed = rest == "run.json" || std::ranges::any_of(kFixedFolders, [&](auto folder) {
                       return rest.starts_with(folder);
                     });
  return fixed ? ObjectKind::kImmutable : ObjectKind::kMutable;
}

}  // namespace isthmus::relay
