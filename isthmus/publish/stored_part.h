// Whether what a payload names is there.
#ifndef ISTHMUS_PUBLISH_STORED_PART_H_
#define ISTHMUS_PUBLISH_STORED_PART_H_

#include <fmt/format.h>

#include <optional>
#include <string>

#include "isthmus/board/manifest.h"
#include "isthmus/store/store.h"

namespace isthmus::publish {

// What is wrong with the part's object by its size: "is missing", "has 5 bytes instead of 7"; empty
// if nothing is.
inline std::string WrongSizeOf(store::Store& store, const board::PayloadPart& part) {
  const std::optional<uint64_t> size = store.Size(part.key);
  if (size == part.bytes) return "";
  return size ? fmt::format("has {} bytes instead of {}", *size, part.bytes) : "is missing";
}

}  // namespace isthmus::publish

#endif  // ISTHMUS_PUBLISH_STORED_PART_H_
