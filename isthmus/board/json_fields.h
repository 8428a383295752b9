// Typed reading of the JSON objects that boards and replicas store.
#ifndef ISTHMUS_BOARD_JSON_FIELDS_H_
#define ISTHMUS_BOARD_JSON_FIELDS_H_

#include <boost/json/value.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/base/digest.h"
#include "isthmus/board/manifest.h"

namespace isthmus::board {

// kCorrupt unless `text` is one JSON value (RFC 8259) in UTF-8, nested at most 32 deep.
boost::json::value ParseJson(std::string_view text);

// The fields of one JSON object, which must outlive this view. What breaks a rule throws kCorrupt
// and names the field, for example "payloads[0].parts[2].bytes". A field that is null counts as
// absent; fields that nobody asks for are ignored.
class JsonFields {
 public:
  // `where` is the object's place in the document, empty for the whole.
  JsonFields(const boost::json::value& value, std::string where);

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  std::string Text(std::string_view key) const;
  // Empty if the field is absent.
  std::string OptionalText(std::string_view key) const;
  uint64_t Count(std::string_view key, uint64_t min = 0,
                 uint64_t max = std::numeric_limits<uint64_t>::max()) const;
  int64_t Integer(std::string_view key) const;
  Sha256Digest Digest(std::string_view key) const;
  // RFC 3339, as FormatTime writes it.
  WallTime Time(std::string_view key) const;
  JsonFields Object(std::string_view key) const;
  std::vector<JsonFields> Objects(std::string_view key) const;
  std::vector<uint64_t> Counts(std::string_view key) const;
  // The names of all fields, in the document's order.
  std::vector<std::string> Keys() const;

  // kInvalid if the field "format" is above kBoardFormat.
  void CheckFormat() const;

  // Throws kCorrupt about a field.
  [[noreturn]] void Refuse(std::string_view key, std::string_view why) const;

 private:
  const boost::json::value* Find(std::string_view key) const;
  const boost::json::value& Require(std::string_view key) const;
  std::string PathOf(std::string_view key) const;

  const boost::json::object* object_;
  std::string where_;
};

// How JSON shows a version: null for kNoVersion.
boost::json::value VersionOrNull(VersionNumber version);

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_JSON_FIELDS_H_
