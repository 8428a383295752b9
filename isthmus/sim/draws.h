// Random numbers that are the same for a seed on every machine: the standard library's
// distributions are not.
#ifndef ISTHMUS_SIM_DRAWS_H_
#define ISTHMUS_SIM_DRAWS_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace isthmus::sim {

// SplitMix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", 2014).
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed) {}

  uint64_t Bits() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // Above 0, at most 1.
  double Unit() { return static_cast<double>((Bits() >> 11) + 1) * 0x1p-53; }
  double Exponential(double mean) { return -mean * std::log(Unit()); }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Unit()));
    return radius * std::cos(2 * std::numbers::pi * Unit());
  }

 private:
  uint64_t state_;
};

}  // namespace isthmus::sim

#endif  // ISTHMUS_SIM_DRAWS_H_
