#include "isthmus/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/errors.h"

namespace isthmus {
namespace {

using testing::ExpectError;

TEST(ErrorTest, EveryCodeHasItsName) {
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInvalid), "invalid");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kNotFound), "not_found");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kConflict), "conflict");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kNotReady), "not_ready");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kUnavailable), "unavailable");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kCorrupt), "corrupt");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kPoisoned), "poisoned");
  EXPECT_EQ(ErrorCodeName(ErrorCode::kInternal), "internal");
}

TEST(ErrorTest, ThrowFormatsTheMessage) {
  ExpectError(
      ErrorCode::kConflict, [] { Throw(ErrorCode::kConflict, "create {}: {} exist", "log", 7); },
      "create log: 7 exist");
}

TEST(ErrorTest, AnnotationPutsTheContextInFrontAndKeepsTheCode) {
  const Error error = Error(ErrorCode::kCorrupt, "3 bytes left").Annotated("read table");
  EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
  EXPECT_STREQ(error.what(), "read table: 3 bytes left");
}

TEST(ErrorTest, MissingFilesAreNotFound) {
  ExpectError(
      ErrorCode::kNotFound, [] { ThrowErrno(ENOENT, "open", "/a/b"); }, "open /a/b: No such file");
}

TEST(ErrorTest, FailedResourcesAreUnavailable) {
  for (int number : {ENOSPC, EDQUOT, EIO, EFBIG, EMFILE, ENFILE, ENOMEM, EAGAIN, ESTALE}) {
    ExpectError(
        ErrorCode::kUnavailable, [&] { ThrowErrno(number, "write", "f"); }, "write f: ");
  }
}

TEST(ErrorTest, OtherSystemErrorsAreTheCallersFault) {
  for (int number : {EACCES, EPERM, EISDIR, ENOTDIR, EROFS, EINVAL}) {
    ExpectError(
        ErrorCode::kInvalid, [&] { ThrowErrno(number, "open", "f"); }, "open f: ");
  }
}

}  // namespace
}  // namespace isthmus
