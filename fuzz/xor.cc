// Payloads of the encoding xor.
#include "fuzz/chunk_payload.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return isthmus::fuzz::FuzzPayload(isthmus::codec::Encoding::kXor, data, size);
}
