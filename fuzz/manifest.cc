// Manifests: what is read is written as text that says the same.
#include "isthmus/board/manifest.h"

#include "fuzz/fuzz.h"

namespace isthmus::fuzz {
namespace {

using board::Manifest;

void FuzzManifest(std::string_view text) {
  Manifest manifest;
  if (!SucceedsOrIsNewer([&] { manifest = Manifest::Parse(text); })) return;
  manifest.payload_bytes();
  const std::string written = manifest.Serialize();
  Require(Manifest::Parse(written).Serialize() == written, "a manifest is written otherwise");
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzManifest(isthmus::fuzz::TextOf(data, size));
  return 0;
}
