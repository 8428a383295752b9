// Encoding and decoding of one chunk's payload (docs/patch-format.md, section 3).
#ifndef ISTHMUS_CODEC_CHUNK_H_
#define ISTHMUS_CODEC_CHUNK_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/element.h"
#include "isthmus/codec/model.h"
#include "isthmus/codec/old_units.h"

namespace isthmus::codec {

// Stored in patches: explicit, never reused.
enum class Encoding : uint8_t { kRaw = 0, kXor = 1, kDirect = 2, kContext = 3 };

std::string_view EncodingName(Encoding encoding);
std::optional<Encoding> ParseEncoding(std::string_view name);

// Whether payloads of the encoding need a model (sparse.h).
constexpr bool IsSparse(Encoding encoding) {
  return encoding == Encoding::kDirect || encoding == Encoding::kContext;
}

// A payload is never larger than its chunk plus this.
inline constexpr uint64_t kPayloadSlackBytes = 1024;

// Appends the dense payload of the chunk `after`, given the same chunk of the base. Thread-safe.
// Sparse ones: sparse.h.
void EncodeXor(ByteSpan before, ByteSpan after, size_t unit_bytes, ByteVector* payload);
void EncodeRaw(ByteSpan after, size_t unit_bytes, ByteVector* payload);

// Turns `chunk`, units of `dtype` that hold the base's bytes, into the result's. `model` is needed
// for sparse encodings. Any payload whatever ends in a result inside `chunk` or in
// Error(kCorrupt); after an error the content of `chunk` is unspecified, so it must not be a
// replica's own memory. `old` (nullptr: not wanted) gets what was overwritten, ascending but for
// the order within kBlockElements units (sparse.h). Thread-safe.
void ApplyChunk(Encoding encoding, const Model* model, tensor::Dtype dtype, ByteSpan payload,
                MutableByteSpan chunk, OldUnits* old = nullptr);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHUNK_H_
