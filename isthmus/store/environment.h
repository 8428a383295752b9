// Environment variables: a port, so that tests set their own.
#ifndef ISTHMUS_STORE_ENVIRONMENT_H_
#define ISTHMUS_STORE_ENVIRONMENT_H_

#include <cstdlib>
#include <functional>
#include <string>

namespace isthmus::store {

// The value of a variable; empty if it is absent or empty, which is the same to AWS's tools.
using Environment = std::function<std::string(const std::string& name)>;

inline Environment SystemEnvironment() {
  return [](const std::string& name) -> std::string {
    const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? "" : value;
  };
}

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_ENVIRONMENT_H_
