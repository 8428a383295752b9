// Keys that break a rule each.
#ifndef ISTHMUS_TESTS_CONFORMANCE_BAD_KEYS_H_
#define ISTHMUS_TESTS_CONFORMANCE_BAD_KEYS_H_

#include <string>
#include <vector>

namespace isthmus::store {

inline std::vector<std::string> BadKeys() {
  using namespace std::string_literals;
  return {"",    "/",      "/a",   "a/",       "a//b",  ".",
          "..",  "a/..",   "../a", ".a",       "a b",   "a\nb",
          "a:b", "a/.b/c", "a\\b", "\xC3\xA4", "a\0b"s, std::string(1025, 'a')};
}

}  // namespace isthmus::store

#endif  // ISTHMUS_TESTS_CONFORMANCE_BAD_KEYS_H_
