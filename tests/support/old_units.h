// Checks of what an apply says that it overwrote.
#ifndef ISTHMUS_TESTS_SUPPORT_OLD_UNITS_H_
#define ISTHMUS_TESTS_SUPPORT_OLD_UNITS_H_

#include <cstring>

#include "isthmus/codec/old_units.h"

namespace isthmus::testing {

// The units as they were: `bytes` with the old ones put back. The listed units are all different
// from the new ones, so two entries of one place would not give the old bytes.
inline ByteVector TakeBack(ByteSpan bytes, const codec::OldUnits& old, size_t unit_bytes) {
  ByteVector before(bytes.begin(), bytes.end());
  codec::PutBack(old.list(), unit_bytes, 0, before);
  return before;
}

// How many units differ.
inline size_t CountChanged(ByteSpan before, ByteSpan after, size_t unit_bytes) {
  size_t count = 0;
  for (size_t at = 0; at < before.size(); at += unit_bytes) {
    count += std::memcmp(before.data() + at, after.data() + at, unit_bytes) != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_OLD_UNITS_H_
