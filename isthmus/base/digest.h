// Digests: SHA-256 for what is authenticated, XXH3 for faults at memory speed.
#ifndef ISTHMUS_BASE_DIGEST_H_
#define ISTHMUS_BASE_DIGEST_H_

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "isthmus/base/bytes.h"

namespace isthmus {

// N digest bytes in the order in which they are stored and printed.
template <size_t N>
struct DigestBytes {
  std::array<std::byte, N> bytes{};

  ByteSpan span() const { return bytes; }
  std::string Hex() const;
  static DigestBytes Copy(ByteSpan from);              // from.size() must be N, else kCorrupt
  static DigestBytes ParseHex(std::string_view text);  // 2 N lower-case digits, else kCorrupt
  auto operator<=>(const DigestBytes&) const = default;
};

using Sha256Digest = DigestBytes<32>;  // FIPS 180-4
using Xxh128Digest = DigestBytes<16>;  // XXH3-128, canonical (big-endian) byte order

// "sha256:" and 64 lower-case hexadecimal digits, the form used in JSON. ParseSha256 throws
// kCorrupt for anything else.
std::string FormatSha256(const Sha256Digest& digest);
Sha256Digest ParseSha256(std::string_view text);

Sha256Digest Sha256(ByteSpan bytes);
uint64_t Xxh3_64(ByteSpan bytes);
Xxh128Digest Xxh3_128(ByteSpan bytes);

// Incremental SHA-256. Finish may be called once.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  void Update(ByteSpan bytes);
  Sha256Digest Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Incremental XXH3-128; Finish leaves it ready for new data.
class Xxh128Stream {
 public:
  Xxh128Stream();
  ~Xxh128Stream();
  Xxh128Stream(Xxh128Stream&&) noexcept;
  Xxh128Stream& operator=(Xxh128Stream&&) noexcept;
  void Update(ByteSpan bytes);
  Xxh128Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isthmus

#endif  // ISTHMUS_BASE_DIGEST_H_
