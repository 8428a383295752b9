// Parts: header, tables, and everything that is in them.
#include "isthmus/codec/part.h"

#include "fuzz/fuzz.h"

namespace isthmus::fuzz {
namespace {

using codec::FileKind;
using codec::Part;

void FuzzPart(ByteSpan bytes) {
  Part part;
  if (!SucceedsOrIsNewer([&] { part = Part::Open(bytes); })) return;
  for (const codec::ChunkEntry& entry : part.chunks()) {
    Succeeds([&] {
      const ByteSpan payload = part.Payload(entry);
      Require(payload.size() == entry.bytes, "a payload has another size than its entry says");
      Require(payload.data() >= bytes.data() &&
                  payload.data() + payload.size() <= bytes.data() + bytes.size(),
              "a payload lies outside of its part");
    });
  }
  for (const codec::FileEntry& entry : part.files()) {
    if (entry.kind == FileKind::kRemoved) continue;
    Succeeds([&] {
      Require(part.Content(entry).size() == entry.raw_bytes, "a file's content has another size");
    });
  }
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzPart(isthmus::fuzz::BytesOf(data, size));
  return 0;
}
