// Randomness: a port, so that tests decide what is drawn.
#ifndef ISTHMUS_BASE_RANDOM_H_
#define ISTHMUS_BASE_RANDOM_H_

#include <string>

#include "isthmus/base/bytes.h"

namespace isthmus {

// Fills buffers with random bytes. Implementations are thread-safe.
class RandomSource {
 public:
  virtual ~RandomSource() = default;
  virtual void Fill(MutableByteSpan out) = 0;
};

// The kernel's generator (getrandom). Lives for the whole program.
RandomSource& SystemRandom();

// 16 lower-case hex digits: a name that does not collide.
std::string RandomId(RandomSource& random = SystemRandom());
// A version 4 UUID (RFC 9562) in its text form.
std::string RandomUuid(RandomSource& random = SystemRandom());

}  // namespace isthmus

#endif  // ISTHMUS_BASE_RANDOM_H_
