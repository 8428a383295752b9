// Seeds of random tests.
#ifndef ISTHMUS_TESTS_SUPPORT_SEED_H_
#define ISTHMUS_TESTS_SUPPORT_SEED_H_

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace isthmus::testing {

// ISTHMUS_TEST_SEED, which repeats a run, or a new one. Printed.
inline uint32_t TestSeed() {
  const char* given = std::getenv("ISTHMUS_TEST_SEED");
  const uint32_t seed =
      given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : std::random_device()();
  std::cout << "ISTHMUS_TEST_SEED=" << seed << "\n";
  return seed;
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_SEED_H_
