// Bounds-checked reading and writing of bytes. Everything stored or sent is little-endian.
#ifndef ISTHMUS_BASE_BYTES_H_
#define ISTHMUS_BASE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace isthmus {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

inline ByteSpan AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view AsText(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads a fixed-width integer at an address of any alignment. The caller has checked the bounds.
template <typename T>
T LoadLe(const std::byte* at) {
  static_assert(std::is_unsigned_v<T>);
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <typename T>
void StoreLe(std::byte* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  std::memcpy(at, &value, sizeof value);
}

// A cursor over bytes that it does not own: the bytes must outlive it. Every read is checked
// against the end first; a read past the end, a varint over 64 bits or one that is not in its
// shortest form throws kCorrupt with the position. Not for inner loops.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  template <typename T>
  T Le() {
    return LoadLe<T>(Take(sizeof(T)).data());
  }
  uint8_t U8() { return Le<uint8_t>(); }
  // Unsigned LEB128, 1 to 10 bytes, shortest form only.
  uint64_t Varint();
  // The next `count` bytes, a view into the input.
  ByteSpan Take(uint64_t count);
  // A varint length, at most `max_bytes`, and that many bytes.
  std::string_view String(uint64_t max_bytes);

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }
  // Throws kCorrupt unless everything was read.
  void ExpectEnd() const;

 private:
  ByteSpan bytes_;
  size_t position_ = 0;
};

// Appends to a growing buffer that it owns.
class ByteWriter {
 public:
  template <typename T>
  void Le(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    StoreLe(bytes_.data() + at, value);
  }
  void U8(uint8_t value) { bytes_.push_back(std::byte{value}); }
  void Varint(uint64_t value);
  // Appends zeros, to be written to before the next call.
  MutableByteSpan Extend(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return MutableByteSpan(bytes_).last(count);
  }
  void Append(ByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void String(std::string_view text) {
    Varint(text.size());
    Append(AsBytes(text));
  }

  size_t size() const { return bytes_.size(); }
  ByteSpan bytes() const { return bytes_; }
  ByteVector Release() { return std::move(bytes_); }

 private:
  ByteVector bytes_;
};

// a * b and a + b; false when the result does not fit, and then *out is unspecified.
inline bool CheckedMul(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_mul_overflow(a, b, out);
}
inline bool CheckedAdd(uint64_t a, uint64_t b, uint64_t* out) {
  return !__builtin_add_overflow(a, b, out);
}

}  // namespace isthmus

#endif  // ISTHMUS_BASE_BYTES_H_
