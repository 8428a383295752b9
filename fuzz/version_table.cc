// Version tables: what is accepted is the only way to write it.
#include "isthmus/tensor/version_table.h"

#include "fuzz/fuzz.h"

namespace isthmus::fuzz {
namespace {

void FuzzVersionTable(ByteSpan bytes) {
  tensor::VersionTable table;
  if (!Succeeds([&] { table = tensor::VersionTable::Parse(bytes); })) return;
  Require(std::ranges::equal(table.Serialize(), bytes), "a version table is written otherwise");
  for (const auto& tensor : table.tensors) {
    Require(table.Find(tensor.name) == &tensor, "a tensor of a version table is not found");
  }
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzVersionTable(isthmus::fuzz::BytesOf(data, size));
  return 0;
}
