// Encoding and decoding of one chunk's payload (docs/patch-format.md, section 3).
#ifndef ISTHMUS_CODEC_CHUNK_H_
#define ISTHMUS_CODEC_CHUNK_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "isthmus/base/bytes.h"
#include "isthmus/codec/unit.h"

namespace isthmus::codec {

// Stored in patches: explicit, never reused. 3 is reserved for "context".
enum class Encoding : uint8_t { kRaw = 0, kXor = 1, kDirect = 2 };

std::string_view EncodingName(Encoding encoding);
std::optional<Encoding> ParseEncoding(std::string_view name);

// A payload is never larger than its chunk plus this.
inline constexpr uint64_t kPayloadSlackBytes = 1024;

// Appends the payload for the chunk `after`, given the same chunk of the base. `positions` are the
// indices of the units that differ (ScanChanged), at least one. Thread-safe.
void EncodeDirect(ByteSpan before, ByteSpan after, size_t unit_bytes,
                  std::span<const uint32_t> positions, ByteVector* payload);
void EncodeXor(ByteSpan before, ByteSpan after, size_t unit_bytes, ByteVector* payload);
void EncodeRaw(ByteSpan after, size_t unit_bytes, ByteVector* payload);

// Turns `chunk`, which holds the base's bytes, into the result's. Any payload whatever ends in a
// result inside `chunk` or in Error(kCorrupt); after an error the content of `chunk` is
// unspecified, so it must not be a replica's own memory. Thread-safe.
void ApplyChunk(Encoding encoding, size_t unit_bytes, ByteSpan payload, MutableByteSpan chunk);

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHUNK_H_
