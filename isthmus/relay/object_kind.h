// Which of a board's objects may change (docs/board.md, "Layout"). Pure.
#ifndef ISTHMUS_RELAY_OBJECT_KIND_H_
#define ISTHMUS_RELAY_OBJECT_KIND_H_

#include <string>
#include <string_view>

namespace isthmus::relay {

enum class ObjectKind {
  kImmutable,  // created once, never replaced
  kMutable,    // hints, claims, and what this program does not know
  kForeign,    // no part of a board: not served
};

// `key` must be a key (store::IsKey).
ObjectKind KindOf(std::string_view key);

// Whether a key can begin so: all do, with the empty prefix.
bool MayBeginKeys(std::string_view prefix);

// "runs/<run>/", which all keys of a run begin with; empty if `key` (or a prefix of keys) names no
// run.
std::string_view RunPrefixOf(std::string_view key);

}  // namespace isthmus::relay

#endif  // ISTHMUS_RELAY_OBJECT_KIND_H_
