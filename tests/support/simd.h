// Running a check with every kind of SIMD instructions.
#ifndef ISTHMUS_TESTS_SUPPORT_SIMD_H_
#define ISTHMUS_TESTS_SUPPORT_SIMD_H_

#include <gtest/gtest.h>

#include <string>

#include "isthmus/codec/simd.h"

namespace isthmus::testing {

// Calls `check` once for every SIMD target that this machine has; then the best one is in use
// again.
template <typename Check>
void OnEveryTarget(const Check& check) {
  for (const std::string& target : codec::SimdTargets()) {
    SCOPED_TRACE(target);
    codec::SelectSimd(target);
    check();
  }
  codec::SelectSimd("");
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SIMD_H_
