// The input makes two versions of a few tensors. Encoding and decoding, through a part and a chain,
// must lead from one to the other, and every SIMD target must produce the same bytes.
#include <random>

#include "fuzz/fuzz.h"
#include "isthmus/codec/chain.h"
#include "isthmus/codec/chunk_differ.h"
#include "isthmus/codec/simd.h"

namespace isthmus::fuzz {
namespace {

using codec::Chain;
using codec::ChunkLayout;
using codec::Encoding;
using codec::EncodingPolicy;
using codec::Part;
using tensor::VersionTable;
using Random = std::minstd_rand;

// Two versions of a checkpoint's tensors, chunk by chunk.
struct Versions {
  VersionTable table;
  std::vector<ByteVector> before;
  std::vector<ByteVector> after;
  EncodingPolicy policy;
};

// Elements of a tensor: mostly few, for speed. Tensors of one dtype share a pool.
uint64_t ReadElements(Input* in) {
  const uint16_t number = in->U16();
  return 1 + (number % 8 == 0 ? number : number % 2048);
}

VersionTable ReadTable(Input* in) {
  VersionTable table;
  const size_t count = 1 + in->U8() % 4;
  for (size_t i = 0; i < count; ++i) {
    const tensor::Dtype dtype = tensor::AllDtypes()[in->U8() % tensor::AllDtypes().size()];
    // Elements in whole units: four of the 6-bit dtypes are three bytes.
    const uint64_t elements = ReadElements(in) * (tensor::BitsOf(dtype) < 8 ? 4u : 1u);
    table.tensors.push_back({"t" + std::to_string(i), dtype, {elements}, "m.safetensors", {}});
  }
  table.shards.push_back({"m.safetensors", {}});
  return table;
}

ByteVector ReadOldBytes(Input* in, size_t size) {
  ByteVector bytes(size);
  const uint8_t kind = in->U8();
  const uint8_t mask = in->U8();
  Random random(in->U16());
  const ByteSpan pattern = in->Take(1 + kind / 4);
  for (size_t i = 0; i < size; ++i) {
    const auto drawn = static_cast<uint32_t>(random() >> 8);
    const uint32_t repeated =
        pattern.empty() ? 0 : std::to_integer<uint32_t>(pattern[i % pattern.size()]);
    // 0: the pattern; 1: random bits; 2 and 3: some bits of the pattern, random ones between them.
    const uint32_t chosen = kind % 4 == 0 ? 0 : kind % 4 == 1 ? 0xFF : mask;
    bytes[i] = static_cast<std::byte>((repeated & ~chosen) | (drawn & chosen));
  }
  return bytes;
}

// Changes about one byte of 2^k all over the chunk.
void ScatterChanges(uint8_t k, uint8_t flips, MutableByteSpan bytes) {
  Random random(flips + 1u);
  const size_t one_in = size_t{1} << (k % 20);
  for (size_t at = random() % one_in; at < bytes.size(); at += 1 + random() % (2 * one_in)) {
    bytes[at] ^= static_cast<std::byte>(1u << (flips % 8));
    if (flips >= 128) bytes[at] = static_cast<std::byte>(random() >> 8);
  }
}

// One change after another: how far ahead, and what becomes of the byte there.
void EditBytes(Input* in, MutableByteSpan bytes) {
  for (size_t at = 0; !in->empty(); ++at) {
    const uint8_t code = in->U8();
    at += code / 8 == 31 ? in->U16() : code / 8;
    if (at >= bytes.size()) return;
    std::byte& byte = bytes[at];
    const auto value = std::to_integer<uint32_t>(byte);
    switch (code % 4) {
      case 0:
        byte = static_cast<std::byte>(value ^ 1);
        break;
      case 1:
        byte = static_cast<std::byte>(value + 1);
        break;
      case 2:
        byte = static_cast<std::byte>(value ^ 0x80);
        break;
      default:
        byte = static_cast<std::byte>(in->U8());
    }
  }
}

Versions ReadVersions(Input* in) {
  Versions versions;
  const uint8_t choice = in->U8() % 5;
  if (choice < 4) versions.policy = static_cast<Encoding>(choice);
  versions.table = ReadTable(in);
  const ChunkLayout layout = ChunkLayout::Of(versions.table);
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    versions.before.push_back(ReadOldBytes(in, chunk.bytes()));
    versions.after.push_back(versions.before.back());
    const uint8_t scatter = in->U8();
    if (scatter % 2 == 0) ScatterChanges(scatter / 2, in->U8(), versions.after.back());
    const size_t edit_bytes = in->U8();
    Input edits(in->Take(edit_bytes));
    EditBytes(&edits, versions.after.back());
  }
  return versions;
}

codec::ChunkSource SourceOf(const std::vector<ByteVector>& chunks) {
  return [&chunks](size_t chunk, ByteVector* /*scratch*/) -> ByteSpan { return chunks[chunk]; };
}

ByteVector MakePart(const Versions& versions) {
  static ThreadPool pool(1);
  codec::PartBuilder part;
  codec::DiffChunks(
      {versions.table, versions.table, SourceOf(versions.before), SourceOf(versions.after)},
      versions.policy, pool, NoProgress(), [&](codec::ChunkDiff diff) {
        Require(versions.before[diff.number] != versions.after[diff.number],
                "an unchanged chunk has a payload");
        codec::AddChunkDiff(std::move(diff), &part);
      });
  ByteVector bytes;
  part.Finish(std::nullopt,
              [&](ByteSpan piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

void CheckApplied(const Versions& versions, const ByteVector& bytes) {
  const Part part = Part::Open(bytes);
  const Chain chain(versions.table, {{&part}});
  for (size_t i = 0; i < chain.layout().chunks().size(); ++i) {
    ByteVector chunk = versions.before[i];
    if (chain.Touches(i)) chain.FoldChunk(i, chunk);
    Require(chunk == versions.after[i], "a chunk does not come back as it was encoded");
  }
}

void FuzzRoundTrip(Input in) {
  static const std::vector<std::string> targets = codec::SimdTargets();
  const std::string& target = targets[in.U8() % targets.size()];
  const Versions versions = ReadVersions(&in);

  codec::SelectSimd("");
  const ByteVector part = MakePart(versions);
  CheckApplied(versions, part);
  codec::SelectSimd(target);
  Require(MakePart(versions) == part, "SIMD targets encode differently: " + target);
  CheckApplied(versions, part);
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzRoundTrip({data, size});
  return 0;
}
