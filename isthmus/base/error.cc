#include "isthmus/base/error.h"

#include <cerrno>
#include <system_error>

namespace isthmus {

std::string_view ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kConflict:
      return "conflict";
    case ErrorCode::kNotReady:
      return "not_ready";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kPoisoned:
      return "poisoned";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "internal";
}

void ThrowErrno(int error_number, std::string_view action, std::string_view object) {
  ErrorCode code = ErrorCode::kInvalid;
  if (error_number == ENOENT) code = ErrorCode::kNotFound;
  for (int unavailable : {ENOSPC, EDQUOT, EIO, EFBIG, EMFILE, ENFILE, ENOMEM, EAGAIN, ESTALE}) {
    if (error_number == unavailable) code = ErrorCode::kUnavailable;
  }
  Throw(code, "{} {}: {}", action, object,
        std::error_code(error_number, std::generic_category()).message());
}

}  // namespace isthmus
