#include "fuzz/chunk_payload.h"

#include <cstring>
#include <optional>

#include "fuzz/fuzz.h"
#include "fuzz/sparse_models.h"
#include "isthmus/codec/simd.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::fuzz {
namespace {

using codec::Encoding;
using codec::Model;

struct Case {
  tensor::Dtype dtype = tensor::Dtype::kU8;
  std::optional<Model> model;
  size_t target = 0;
  ByteVector payload;
  ByteVector old_bytes;  // as large as the chunk: whatever lies beyond is out of bounds
};

ByteVector Repeat(ByteSpan pattern, size_t size) {
  ByteVector bytes(size);
  if (pattern.empty()) return bytes;
  for (size_t at = 0; at < size; at += pattern.size()) {
    std::memcpy(bytes.data() + at, pattern.data(), std::min(pattern.size(), size - at));
  }
  return bytes;
}

std::optional<Model> ReadModel(uint8_t number, ByteReader* in) {
  if (number > 0) return SparseModels()[(number - 1u) % SparseModels().size()];
  std::optional<Model> model;
  Succeeds([&] { model = Model::Read(in); });
  return model;
}

// nullopt if there is no such payload: the model is no model, or none for the encoding.
std::optional<Case> ReadCase(Encoding encoding, const uint8_t* data, size_t size) {
  Case result;
  Input in(data, size);
  result.dtype = tensor::AllDtypes()[in.U8() % tensor::AllDtypes().size()];
  const uint8_t model = in.U8();
  const size_t low_units = in.U16();
  const uint8_t shift = in.U8();
  const size_t units = (low_units == 0 ? 0x10000 : low_units) << (shift > 4 ? 0 : shift);
  result.target = in.U8();
  const size_t pattern_bytes = in.U16();
  const ByteSpan coded =
      in.rest().first(in.rest().size() - std::min(pattern_bytes, in.rest().size()));
  result.old_bytes =
      Repeat(in.rest().subspan(coded.size()), units * tensor::UnitBytes(result.dtype));
  ByteReader reader(coded);
  if (codec::IsSparse(encoding)) {
    result.model = ReadModel(model, &reader);
    if (!result.model) return std::nullopt;
    if (encoding == Encoding::kDirect && result.model->classes.size() != 1) return std::nullopt;
  }
  const ByteSpan payload = reader.Take(reader.remaining());
  result.payload.assign(payload.begin(), payload.end());
  return result;
}

// The listed units must be those that were overwritten.
void CheckOld(const Case& input, ByteVector bytes, const codec::OldUnits& old) {
  codec::PutBack(old.list(), tensor::UnitBytes(input.dtype), 0, bytes);
  Require(bytes == input.old_bytes, "the units listed are those that were overwritten");
}

// The new bytes; nullopt if the payload is refused.
std::optional<ByteVector> Apply(const Case& input, Encoding encoding, std::string_view target) {
  codec::SelectSimd(target);
  const codec::Model* const model = input.model ? &*input.model : nullptr;
  ByteVector chunk = input.old_bytes;
  static codec::OldUnits old;
  const bool applied = Succeeds(
      [&] { codec::ApplyChunk(encoding, model, input.dtype, input.payload, chunk, &old); });
  if (!applied) return std::nullopt;
  CheckOld(input, chunk, old);
  return chunk;
}

// The bitmap of a payload that was accepted.
std::optional<codec::Activity> ActivityOf(ByteSpan payload, uint64_t elements) {
  const auto head = std::to_integer<uint32_t>(payload[0]);
  if ((head & 8) == 0) return std::nullopt;
  ByteVector stream(payload.begin() + 1, payload.end());
  stream.resize(stream.size() + codec::kStreamPadding);
  codec::BitCursor in = {stream.data(), head % 8, (payload.size() - 1) * 8};
  return codec::ReadActivity(&in, elements);
}

// A chunk's elements, 4-bit codes one to a byte.
ByteVector ElementsOf(codec::Elements elements, const ByteVector& bytes) {
  if (elements == codec::Elements::kUnits) return bytes;
  ByteVector codes(2 * bytes.size());
  codec::UnpackCodes(bytes, codes);
  return codes;
}

std::vector<uint32_t> ChangedElements(const ByteVector& before, const ByteVector& after,
                                      size_t element_bytes) {
  std::vector<uint32_t> positions;
  for (size_t at = 0; at < before.size(); at += element_bytes) {
    if (std::memcmp(before.data() + at, after.data() + at, element_bytes) == 0) continue;
    positions.push_back(static_cast<uint32_t>(at / element_bytes));
  }
  return positions;
}

// A sparse payload is the only one for its change, model and bitmap: coding the change again must
// give the same bytes.
void CheckSparse(const Case& input, const ByteVector& new_bytes) {
  const codec::Elements kind = input.model->elements;
  const ByteVector before = ElementsOf(kind, input.old_bytes);
  const ByteVector after = ElementsOf(kind, new_bytes);
  const uint32_t bits = codec::ElementBits(kind, input.dtype);
  const size_t element_bytes = std::max<uint32_t>(bits / 8, 1);
  const uint64_t count = before.size() / element_bytes;
  const std::vector<uint32_t> positions = ChangedElements(before, after, element_bytes);
  Require(!positions.empty(), "a sparse payload that changes nothing was accepted");
  const codec::ClassRule rule(input.model->thresholds, codec::KeyRuleOf(kind, input.dtype));
  const codec::SparseEvents events =
      codec::OrderChanges(before, after, bits, rule, ActivityOf(input.payload, count), positions);
  ByteVector payload;
  codec::EncodeSparse(events, *input.model, count, &payload);
  Require(payload == input.payload, "the change that a payload makes is coded otherwise");
}

}  // namespace

int FuzzPayload(Encoding encoding, const uint8_t* data, size_t size) {
  const std::optional<Case> input = ReadCase(encoding, data, size);
  if (!input) return -1;
  const std::optional<ByteVector> result = Apply(*input, encoding, "");
  if (codec::IsSparse(encoding)) {
    static const std::vector<std::string> targets = codec::SimdTargets();
    const std::string& target = targets[input->target % targets.size()];
    Require(Apply(*input, encoding, target) == result, "SIMD targets differ: " + target);
    if (result) CheckSparse(*input, *result);
  }
  return 0;
}

}  // namespace isthmus::fuzz
