// The one error type of the project.
#ifndef ISTHMUS_BASE_ERROR_H_
#define ISTHMUS_BASE_ERROR_H_

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace isthmus {

// What the caller can do about a failure. The command line, HTTP and Python map these codes in one
// table each. Values are stored in logs: explicit, never reused.
enum class ErrorCode {
  kInvalid = 1,      // the request or its arguments are wrong; repeating it cannot help
  kNotFound = 2,     // the named thing does not exist
  kConflict = 3,     // somebody else did it first; re-read and decide again
  kNotReady = 4,     // not yet; wait and try again
  kUnavailable = 5,  // a resource (disk, store, network) failed; try again later
  kCorrupt = 6,      // bytes are not what they claim to be; never used, never repaired by guessing
  kPoisoned = 7,     // an engine holds unknown weights until a full reload
  kInternal = 8,     // a bug in this program
};

// The code's name as JSON and logs show it, for example "corrupt".
std::string_view ErrorCodeName(ErrorCode code);

// Thrown by every function of the project that fails. The message is one line that names the
// action, the object, what was found and what was allowed. Destructors never throw it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

  ErrorCode code() const { return code_; }

  // The same error with "CONTEXT: " in front of the message: added once, where the object is known.
  Error Annotated(std::string_view context) const {
    return {code_, fmt::format("{}: {}", context, what())};
  }

 private:
  ErrorCode code_;
};

// Whether an error says that bytes are missing or wrong, rather than that a resource failed: then
// another copy of them may help.
inline bool MeansDamage(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kNotFound;
}

// Throws Error(code) with a message made by fmt.
template <typename... Args>
[[noreturn]] void Throw(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws the Error for a failed system call: ENOSPC, EDQUOT, EIO and the like become kUnavailable,
// ENOENT kNotFound, everything else (permissions, wrong kind of file) kInvalid.
[[noreturn]] void ThrowErrno(int error_number, std::string_view action, std::string_view object);

}  // namespace isthmus

#endif  // ISTHMUS_BASE_ERROR_H_
