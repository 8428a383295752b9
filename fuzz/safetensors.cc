// Headers of safetensors files: u64 size of the whole file, then the first bytes of it.
#include "isthmus/tensor/safetensors.h"

#include "fuzz/fuzz.h"

namespace isthmus::fuzz {
namespace {

using tensor::SafetensorsHeader;
using tensor::TensorInfo;

// The tensors lie one after another and fill the file.
void CheckPlaces(const SafetensorsHeader& header, uint64_t file_bytes) {
  uint64_t at = header.header_bytes;
  for (const TensorInfo& tensor : header.tensors) {
    Require(tensor.begin == at && tensor.end >= at, "a tensor does not begin where one ends");
    Require(tensor.bytes() == tensor::BytesOf(tensor.name, tensor.dtype, tensor.shape),
            "a tensor has another size than its shape");
    at = tensor.end;
  }
  Require(at == file_bytes, "the tensors do not fill the file");
}

// A header made of what was read says the same again.
void CheckMadeAgain(const SafetensorsHeader& header) {
  const ByteVector made = tensor::MakeSafetensorsHeader(header.tensors, header.metadata);
  uint64_t data_bytes = 0;
  for (const TensorInfo& tensor : header.tensors) data_bytes += tensor.bytes();
  const SafetensorsHeader again = tensor::ParseSafetensorsHeader(made, made.size() + data_bytes);
  CheckPlaces(again, made.size() + data_bytes);
  Require(again.metadata == header.metadata, "made again, a header has other metadata");
  Require(again.tensors.size() == header.tensors.size(), "made again, a header has other tensors");
  for (size_t i = 0; i < again.tensors.size(); ++i) {
    const TensorInfo& found = again.tensors[i];
    const TensorInfo& expected = header.tensors[i];
    Require(found.name == expected.name && found.dtype == expected.dtype &&
                found.shape == expected.shape,
            "made again, a header has another tensor");
  }
}

void FuzzSafetensors(Input in) {
  const auto file_bytes = std::max<uint64_t>(in.Le<uint64_t>(), in.rest().size());
  SafetensorsHeader header;
  const bool parsed =
      Succeeds([&] { header = tensor::ParseSafetensorsHeader(in.rest(), file_bytes); });
  if (!parsed) return;
  CheckPlaces(header, file_bytes);
  CheckMadeAgain(header);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzSafetensors({data, size});
  return 0;
}
