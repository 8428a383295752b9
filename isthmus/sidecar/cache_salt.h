// The salt that keeps an engine's prefix cache apart by version. Pure.
#ifndef ISTHMUS_SIDECAR_CACHE_SALT_H_
#define ISTHMUS_SIDECAR_CACHE_SALT_H_

#include <optional>
#include <string>
#include <string_view>

#include "isthmus/board/manifest.h"

namespace isthmus::sidecar {

// What engines take at most. They refuse '@', '/' and '\' too.
inline constexpr size_t kMaxCacheSaltCharacters = 128;

// Another text for each run, version and user's salt (none is not the same as an empty one), and
// the same text whenever they are the same, in every process:
//
//   <16 hex digits of SHA-256(run)>.<version>             without a salt of the user's
//   <16 hex digits>.<version>.<32 hex digits of SHA-256>  with one
//
// 32 digits, because users choose their salts and must not find two that are the same in the cache.
// Of [0-9a-f.] alone, at most 70 characters, whatever the arguments.
std::string MakeCacheSalt(std::string_view run, board::VersionNumber version,
                          const std::optional<std::string>& user_salt);

}  // namespace isthmus::sidecar

#endif  // ISTHMUS_SIDECAR_CACHE_SALT_H_
