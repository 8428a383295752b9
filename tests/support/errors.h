// What tests expect of errors.
#ifndef ISTHMUS_TESTS_SUPPORT_ERRORS_H_
#define ISTHMUS_TESTS_SUPPORT_ERRORS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "isthmus/base/error.h"

namespace isthmus::testing {

// Fails the test unless `action` throws an Error with this code, whose message contains each of
// `parts`.
template <typename Action, typename... Parts>
void ExpectError(ErrorCode code, const Action& action, const Parts&... parts) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCodeName(error.code()), ErrorCodeName(code)) << error.what();
    for (const std::string& part : std::initializer_list<std::string>{std::string(parts)...}) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
    }
    return;
  }
  ADD_FAILURE() << "no error was thrown, expected " << ErrorCodeName(code);
}

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_ERRORS_H_
