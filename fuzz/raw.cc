// Payloads of the encoding raw.
#include "fuzz/chunk_payload.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return isthmus::fuzz::FuzzPayload(isthmus::codec::Encoding::kRaw, data, size);
}
