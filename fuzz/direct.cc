// Payloads of the encoding direct.
#include "fuzz/chunk_payload.h"
#include "fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return isthmus::fuzz::FuzzPayload(isthmus::codec::Encoding::kDirect, data, size);
}
