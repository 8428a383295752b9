// Names of files that cannot stand beside each other.
#ifndef ISTHMUS_CODEC_PATHS_H_
#define ISTHMUS_CODEC_PATHS_H_

#include <optional>
#include <set>
#include <string>

namespace isthmus::codec {

// The first path that is also a folder on the way to another one, for example "a" beside "a/b".
// A patch must not turn one into the other: whatever order files are changed in, or taken back in,
// one would stand in the other's way.
inline std::optional<std::string> PathThatIsAFolder(const std::set<std::string>& paths) {
  for (const std::string& path : paths) {
    const auto next = paths.lower_bound(path + "/");
    if (next != paths.end() && next->starts_with(path + "/")) return path;
  }
  return std::nullopt;
}

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_PATHS_H_
