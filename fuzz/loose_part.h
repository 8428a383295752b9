// Parts taken apart without minding their rules, and put together again with sizes, counts and
// digests that fit: so a changed part is refused for the change, and not for its digest.
#ifndef ISTHMUS_FUZZ_LOOSE_PART_H_
#define ISTHMUS_FUZZ_LOOSE_PART_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "isthmus/base/bytes.h"
#include "isthmus/base/digest.h"

namespace isthmus::fuzz {

struct LoosePart {
  struct Tensor {
    ByteVector entry;  // of the tables, whole
    uint64_t sum_change = 0;
  };
  struct Chunk {
    uint64_t skipped = 0;
    uint8_t encoding = 0;
    uint64_t model = 0;
    ByteVector payload;
  };
  struct File {
    ByteVector path;
    uint8_t kind = 0;
    uint64_t raw_bytes = 0;
    Sha256Digest sha256;
    ByteVector payload;
  };

  ByteVector header;  // counts, sizes and the digest follow from the rest
  std::vector<Tensor> tensors;
  std::vector<ByteVector> models;
  std::vector<Chunk> chunks;
  std::vector<File> files;

  ByteVector Write() const;
};

// nullopt for bytes that cannot be taken apart so.
std::optional<LoosePart> TakeApart(ByteSpan part);

// The tables of a part, unpacked; and the part with other tables, and with nothing else that fits
// them but size and digest. nullopt if there are none.
std::optional<ByteVector> TablesOf(ByteSpan part);
std::optional<ByteVector> WithTables(ByteSpan part, ByteSpan tables);

// The content of a zstd frame that declares at most `most` bytes.
std::optional<ByteVector> Unframe(ByteSpan frame, uint64_t most);

}  // namespace isthmus::fuzz

#endif  // ISTHMUS_FUZZ_LOOSE_PART_H_
