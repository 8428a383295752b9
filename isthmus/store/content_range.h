// The part of an object that an answer carries (RFC 9110, section 14.4).
#ifndef ISTHMUS_STORE_CONTENT_RANGE_H_
#define ISTHMUS_STORE_CONTENT_RANGE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "isthmus/store/http_transport.h"

namespace isthmus::store {

struct ContentRange {
  uint64_t first = 0;
  uint64_t length = 0;
  uint64_t total = 0;  // of the object
};

// Decimal digits and nothing else, below 2^63.
std::optional<uint64_t> ParseSize(std::string_view digits);

// "bytes FIRST-LAST/TOTAL"; nullopt for other forms and for ranges that do not lie in the object.
std::optional<ContentRange> ParseContentRange(std::string_view value);

// What a 200 or 206 carries. kCorrupt if it does not say so: a 206 without a proper Content-Range,
// or with a Content-Length that contradicts it. Of a 200 without Content-Length, nullopt.
std::optional<ContentRange> RangeOf(const HttpAnswer& head);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_CONTENT_RANGE_H_
