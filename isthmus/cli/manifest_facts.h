// What several commands say of a version.
#ifndef ISTHMUS_CLI_MANIFEST_FACTS_H_
#define ISTHMUS_CLI_MANIFEST_FACTS_H_

#include "isthmus/board/manifest.h"

namespace isthmus::cli {

// Changed units of all.
inline double DensityOf(const board::Manifest& manifest) {
  return manifest.elements == 0
             ? 0
             : static_cast<double>(manifest.changed) / static_cast<double>(manifest.elements);
}

// Whether it was published as a whole checkpoint.
inline bool IsAnchor(const board::Manifest& manifest) {
  return !manifest.payloads.empty() &&
         manifest.payloads.front().kind == board::PayloadKind::kAnchor;
}

}  // namespace isthmus::cli

#endif  // ISTHMUS_CLI_MANIFEST_FACTS_H_
