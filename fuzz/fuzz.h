// What the fuzz targets share. A target is one file that defines LLVMFuzzerTestOneInput. libFuzzer
// calls it in the preset "fuzz"; replay_main.cc calls it in all other builds, with the files given.
#ifndef ISTHMUS_FUZZ_FUZZ_H_
#define ISTHMUS_FUZZ_FUZZ_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "isthmus/base/bytes.h"
#include "isthmus/base/error.h"

// 0, or -1 for an input that is not worth keeping.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace isthmus::fuzz {

// Ends the program: what the fuzzer is looking for.
[[noreturn]] inline void Finding(std::string_view what) {
  std::fprintf(stderr, "FINDING: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

inline void Require(bool holds, std::string_view what) {
  if (!holds) Finding(what);
}

// Whether `action` ended without an error. Errors with other codes are findings; everything else
// that is thrown, std::bad_alloc for example, is not caught and ends the program too.
template <typename Action>
bool Succeeds(const Action& action,
              std::initializer_list<ErrorCode> expected = {ErrorCode::kCorrupt}) {
  try {
    action();
  } catch (const Error& error) {
    if (std::ranges::find(expected, error.code()) != expected.end()) return false;
    std::fprintf(stderr, "error %s: ", std::string(ErrorCodeName(error.code())).c_str());
    Finding(error.what());
  }
  return true;
}

// As Succeeds, for what may also say that it is of a newer format.
template <typename Action>
bool SucceedsOrIsNewer(const Action& action) {
  return Succeeds(action, {ErrorCode::kCorrupt, ErrorCode::kInvalid});
}

inline ByteSpan BytesOf(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}
inline std::string_view TextOf(const uint8_t* data, size_t size) {
  return AsText(BytesOf(data, size));
}

// Parameters off the front of an input; zeros behind its end, so that every input means something.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(BytesOf(data, size)) {}
  explicit Input(ByteSpan bytes) : bytes_(bytes) {}

  template <typename T>
  T Le() {
    T value = 0;
    const size_t count = std::min(sizeof value, bytes_.size());
    std::memcpy(&value, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return value;
  }
  uint8_t U8() { return Le<uint8_t>(); }
  uint16_t U16() { return Le<uint16_t>(); }

  bool empty() const { return bytes_.empty(); }
  ByteSpan rest() const { return bytes_; }
  ByteSpan Take(size_t count) {
    const ByteSpan taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  ByteSpan bytes_;
};

}  // namespace isthmus::fuzz

#endif  // ISTHMUS_FUZZ_FUZZ_H_
