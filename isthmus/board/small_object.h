// Reading and writing the objects of a board that hold a handful of short fields: all but
// manifests.
#ifndef ISTHMUS_BOARD_SMALL_OBJECT_H_
#define ISTHMUS_BOARD_SMALL_OBJECT_H_

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/store/store.h"

namespace isthmus::board {

inline constexpr uint64_t kMaxSmallBytes = 64 << 10;

std::string ToText(const boost::json::object& object);

// Calls `read` with the fields of the object in `text`; its errors name the object.
template <typename Read>
auto ReadText(const store::Store& store, const std::string& key, std::string_view text, Read read)
    -> decltype(read(std::declval<const JsonFields&>())) {
  try {
    const boost::json::value document = ParseJson(text);
    const JsonFields fields(document, "");
    fields.CheckFormat();
    return read(fields);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {} in {}", key, store.Describe()));
  }
}

// The same of an object in the store. nullopt if missing.
template <typename Read>
auto ReadSmall(store::Store& store, const std::string& key, Read read)
    -> std::optional<decltype(read(std::declval<const JsonFields&>()))> {
  const std::optional<std::string> text = store.Get(key, kMaxSmallBytes);
  if (!text) return std::nullopt;
  return ReadText(store, key, *text, read);
}

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_SMALL_OBJECT_H_
