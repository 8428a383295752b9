#include "isthmus/base/random.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "isthmus/base/digest.h"
#include "isthmus/base/error.h"

namespace isthmus {
namespace {

class KernelRandom final : public RandomSource {
 public:
  void Fill(MutableByteSpan out) override {
    while (!out.empty()) {
      const ssize_t count = ::getrandom(out.data(), out.size(), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) ThrowErrno(errno, "read", "random bytes");
      out = out.subspan(static_cast<size_t>(count));
    }
  }
};

}  // namespace

RandomSource& SystemRandom() {
  static KernelRandom random;
  return random;
}

std::string RandomId(RandomSource& random) {
  DigestBytes<16> drawn;
  random.Fill(drawn.bytes);
  return drawn.Hex().substr(0, 16);
}

std::string RandomUuid(RandomSource& random) {
  DigestBytes<16> drawn;
  random.Fill(drawn.bytes);
  drawn.bytes[6] = (drawn.bytes[6] & std::byte{0x0F}) | std::byte{0x40};
  drawn.bytes[8] = (drawn.bytes[8] & std::byte{0x3F}) | std::byte{0x80};
  const std::string hex = drawn.Hex();
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4),
                     hex.substr(16, 4), hex.substr(20));
}

}  // namespace isthmus
