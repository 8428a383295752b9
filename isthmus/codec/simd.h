// Which SIMD instructions the codec runs on. Every choice gives the same bytes.
#ifndef ISTHMUS_CODEC_SIMD_H_
#define ISTHMUS_CODEC_SIMD_H_

#include <string>
#include <string_view>
#include <vector>

namespace isthmus::codec {

// Names, best first, of what this program was built for and this machine has: of "avx512-dl"
// (AVX-512 with VBMI, VPOPCNTDQ and more, as of Ice Lake and Zen 4), "avx512", "avx2", "sse4",
// "neon", "sve", …; the last is "scalar", which uses no SIMD instructions.
std::vector<std::string> SimdTargets();

// The one in use: the best one unless SelectSimd chose another.
std::string SimdTarget();

// Uses `name` from now on in the whole process; empty: the best one. kInvalid for a name that is
// not in SimdTargets. Not thread-safe: call it before any coding starts.
void SelectSimd(std::string_view name);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_SIMD_H_
