// Models: what is read is written back as the same bytes, and its tables code what they decode.
#include "isthmus/codec/model.h"

#include <memory>

#include "fuzz/fuzz.h"
#include "isthmus/codec/decode_tables.h"

namespace isthmus::fuzz {
namespace {

using codec::SymbolCounts;
using codec::TansDecodeTable;
using codec::TansEncodeTable;

void CheckTable(const SymbolCounts& counts, const TansDecodeTable& decoding) {
  const TansEncodeTable encoding(counts);
  for (uint32_t state = 0; state < codec::kTansStates; ++state) {
    const codec::TansEntry entry = decoding[state];
    const uint32_t last = (1u << entry.state_bits()) - 1;
    for (const uint32_t bits : {0u, last}) {
      const auto step = encoding.Encode(entry.symbol(), entry.next() + bits);
      Require(step.state == state && step.bits == bits && step.bit_count == entry.state_bits(),
              "a coder table does not code what it decodes");
    }
  }
}

void CheckTables(const codec::Model& model) {
  const auto tables = std::make_unique<codec::DecodeTables>(model);
  for (size_t i = 0; i < model.step_tables.size(); ++i) {
    CheckTable(codec::ExpandStepTable(model.step_tables[i]), tables->steps[i]);
  }
  for (size_t c = 0; c < model.classes.size(); ++c) {
    codec::GapCounts gaps;
    Require(codec::ExpandGapTable(model.classes[c].gap, &gaps), "a gap table does not expand");
    CheckTable(gaps.counts, tables->gaps[c]);
  }
}

void FuzzModel(ByteSpan bytes) {
  ByteReader in(bytes);
  codec::Model model;
  if (!Succeeds([&] { model = codec::Model::Read(&in); })) return;
  ByteWriter out;
  model.Write(&out);
  Require(std::ranges::equal(out.bytes(), bytes.first(in.position())),
          "a model is written otherwise than it was read");
  ByteReader again(out.bytes());
  Require(codec::Model::Read(&again) == model, "a model is read otherwise than it was written");
  CheckTables(model);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzModel(isthmus::fuzz::BytesOf(data, size));
  return 0;
}
