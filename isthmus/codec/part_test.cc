#include "isthmus/codec/part.h"

#include <gtest/gtest.h>

#include "isthmus/tensor/version_table.h"
#include "tests/support/errors.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::ExpectError;

TensorEntry Entry(const std::string& name, uint64_t units) {
  TensorEntry entry;
  entry.name = name;
  entry.dtype = tensor::Dtype::kBf16;
  entry.shape = {units};
  entry.changed = 1;
  entry.sum_change = 0xFEDC'BA98'7654'3210u;
  return entry;
}

ChunkEntry Chunk(uint64_t number, Encoding encoding) {
  ChunkEntry entry;
  entry.number = number;
  entry.encoding = encoding;
  return entry;
}

Model SmallestModel(uint8_t a) {
  Model model;
  model.step_tables = {{512}};
  model.classes = {{0, {GapKind::kGeometric, a, 8, 0, {}}}};
  return model;
}

ByteVector Bytes(std::string_view text) { return {AsBytes(text).begin(), AsBytes(text).end()}; }

ByteVector Build(PartBuilder* builder, const std::optional<VersionPair>& versions = {}) {
  ByteVector bytes;
  const uint64_t stated = builder->Finish(
      versions, [&](ByteSpan piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  EXPECT_EQ(stated, bytes.size());
  return bytes;
}

ByteVector SmallPart() {
  const Model model = SmallestModel(40);
  const Model other = SmallestModel(41);
  PartBuilder builder;
  builder.AddTensor(Entry("layer.1.b", 8));
  builder.AddTensor(Entry("layer.1.a", kChunkUnits + 1));
  builder.AddChunk(Chunk(9, Encoding::kRaw), nullptr, Bytes("payload of chunk 9"));
  builder.AddChunk(Chunk(2, Encoding::kDirect), &model, Bytes("payload of chunk 2"));
  builder.AddChunk(Chunk(3, Encoding::kContext), &other, Bytes("payload of chunk 3"));
  builder.AddChunk(Chunk(4, Encoding::kContext), &model, Bytes("payload of chunk 4"));
  builder.AddFile("tokenizer.json", FileKind::kContent, AsBytes("{\"vocab\":1}"));
  builder.AddFile("old.txt", FileKind::kRemoved, {});
  builder.AddFile("m.safetensors", FileKind::kShardHeader, AsBytes("header"));
  return Build(&builder, VersionPair{Sha256(AsBytes("base")), Sha256(AsBytes("target"))});
}

TEST(PartTest, WhatWasAddedIsReadBackInOrder) {
  const ByteVector bytes = SmallPart();
  const Part part = Part::Open(bytes);
  ASSERT_TRUE(part.versions());
  EXPECT_EQ(part.versions()->base, Sha256(AsBytes("base")));
  EXPECT_EQ(part.versions()->target, Sha256(AsBytes("target")));
  ASSERT_EQ(part.tensors().size(), 2U);
  const TensorEntry& a = part.tensors()[0];
  EXPECT_EQ(a.name, "layer.1.a");
  EXPECT_EQ(a.shape, tensor::Shape{kChunkUnits + 1});
  EXPECT_EQ(a.sum_change, 0xFEDC'BA98'7654'3210u);
  ASSERT_EQ(part.files().size(), 3U);
  EXPECT_EQ(part.files()[0].kind, FileKind::kShardHeader);
  EXPECT_EQ(part.files()[1].kind, FileKind::kRemoved);
  EXPECT_EQ(AsText(part.Content(part.files()[2])), "{\"vocab\":1}");
}

TEST(PartTest, ChunksComeBackByNumberWithTheirPayloads) {
  const ByteVector bytes = SmallPart();
  const Part part = Part::Open(bytes);
  std::vector<uint64_t> numbers;
  for (const ChunkEntry& chunk : part.chunks()) {
    numbers.push_back(chunk.number);
    EXPECT_EQ(AsText(part.Payload(chunk)), "payload of chunk " + std::to_string(chunk.number));
  }
  EXPECT_EQ(numbers, (std::vector<uint64_t>{2, 3, 4, 9}));
  EXPECT_EQ(part.chunks()[0].encoding, Encoding::kDirect);
  EXPECT_EQ(part.chunks()[3].encoding, Encoding::kRaw);
}

TEST(PartTest, EqualModelsAreStoredOnce) {
  const ByteVector bytes = SmallPart();
  const Part part = Part::Open(bytes);
  ASSERT_EQ(part.models().size(), 2U);
  EXPECT_EQ(part.models()[part.chunks()[0].model], SmallestModel(40));
  EXPECT_EQ(part.models()[part.chunks()[1].model], SmallestModel(41));
  EXPECT_EQ(part.models()[part.chunks()[2].model], SmallestModel(40));
}

TEST(PartTest, CountsAndSumsOfOneTensorAddUp) {
  PartBuilder builder;
  for (int i = 0; i < 3; ++i) builder.AddTensor(Entry("a", 8));
  const ByteVector bytes = Build(&builder);
  const Part part = Part::Open(bytes);
  ASSERT_EQ(part.tensors().size(), 1U);
  EXPECT_EQ(part.tensors()[0].changed, 3U);
  EXPECT_EQ(part.tensors()[0].sum_change, 3 * 0xFEDC'BA98'7654'3210u);
}

TEST(PartTest, MoreChangedUnitsThanTheTensorHasOrNoneAreRefused) {
  for (const uint64_t changed : {0, 9}) {
    PartBuilder builder;
    TensorEntry entry = Entry("a", 8);
    entry.changed = changed;
    builder.AddTensor(entry);
    const ByteVector bytes = Build(&builder);
    ExpectError(
        ErrorCode::kCorrupt, [&] { Part::Open(bytes); }, "tensor a", "1 to 8 allowed");
  }
}

TEST(PartTest, TensorsOf2To63BitsAreRefused) {
  PartBuilder largest;
  largest.AddTensor(Entry("a", (uint64_t{1} << 59) - 1));
  EXPECT_EQ(Part::Open(Build(&largest)).tensors().size(), 1U);
  PartBuilder too_large;
  too_large.AddTensor(Entry("a", uint64_t{1} << 59));
  const ByteVector part = Build(&too_large);
  ExpectError(
      ErrorCode::kCorrupt, [&] { Part::Open(part); }, "tensor a", "size in bytes");
}

TEST(PartTest, TwoPayloadsForAChunkAreRefused) {
  PartBuilder builder;
  builder.AddChunk(Chunk(5, Encoding::kRaw), nullptr, Bytes("one"));
  builder.AddChunk(Chunk(5, Encoding::kRaw), nullptr, Bytes("two"));
  const ByteVector bytes = Build(&builder);
  ExpectError(ErrorCode::kCorrupt, [&] { Part::Open(bytes); });
}

TEST(PartTest, PayloadsOutsideTheFormatsLimitsAreRefused) {
  for (const size_t size : {size_t{0}, 4 * kChunkUnits + kPayloadSlackBytes + 1}) {
    PartBuilder builder;
    builder.AddChunk(Chunk(7, Encoding::kRaw), nullptr, ByteVector(size));
    const ByteVector bytes = Build(&builder);
    ExpectError(
        ErrorCode::kCorrupt, [&] { Part::Open(bytes); }, "chunk 7", "1 to 4195328 allowed");
  }
}

TEST(PartTest, DirectWithAModelOfClassesIsRefused) {
  Model model = SmallestModel(40);
  model.thresholds = {100};
  model.classes.push_back(model.classes[0]);
  PartBuilder builder;
  builder.AddChunk(Chunk(7, Encoding::kDirect), &model, Bytes("payload"));
  const ByteVector bytes = Build(&builder);
  ExpectError(
      ErrorCode::kCorrupt, [&] { Part::Open(bytes); }, "chunk 7", "2 classes, 1 expected");
}

TEST(PartTest, ChunkNumbersBeyondTheLimitAreRefused) {
  PartBuilder builder;
  builder.AddChunk(Chunk(kMaxChunkNumber - 1, Encoding::kRaw), nullptr, Bytes("last"));
  const ByteVector allowed = Build(&builder);
  EXPECT_EQ(Part::Open(allowed).chunks()[0].number, kMaxChunkNumber - 1);
  builder.AddChunk(Chunk(kMaxChunkNumber, Encoding::kRaw), nullptr, Bytes("beyond"));
  const ByteVector bytes = Build(&builder);
  ExpectError(ErrorCode::kCorrupt, [&] { Part::Open(bytes); });
}

TEST(PartTest, ANewerEncodingIsNotCalledDamage) {
  PartBuilder builder;
  builder.AddChunk(Chunk(7, static_cast<Encoding>(4)), nullptr, Bytes("payload"));
  const ByteVector bytes = Build(&builder);
  ExpectError(
      ErrorCode::kInvalid, [&] { Part::Open(bytes); }, "encoding 4", "newer");
}

TEST(PartTest, EveryTruncationIsRefused) {
  const ByteVector bytes = SmallPart();
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectError(ErrorCode::kCorrupt, [&] { Part::Open(ByteSpan(bytes).first(size)); });
  }
  ByteVector longer = bytes;
  longer.push_back(std::byte{0});
  ExpectError(ErrorCode::kCorrupt, [&] { Part::Open(longer); });
}

// Opens a part and reads everything in it: what a receiver would make of it.
std::string ReadAll(ByteSpan bytes) {
  const Part part = Part::Open(bytes);
  std::string read;
  for (const TensorEntry& entry : part.tensors()) {
    read += entry.name + std::to_string(entry.changed) + " " + std::to_string(entry.sum_change);
  }
  for (const ChunkEntry& chunk : part.chunks()) {
    read += std::to_string(chunk.number) + " " + std::to_string(chunk.model);
    read += AsText(part.Payload(chunk));
  }
  for (const FileEntry& file : part.files()) {
    read += file.path;
    if (file.kind != FileKind::kRemoved) read += AsText(part.Content(file));
  }
  return read;
}

TEST(PartTest, EveryFlippedBitIsNoticedOrMeansTheSame) {
  const ByteVector bytes = SmallPart();
  const std::string intact = ReadAll(bytes);
  size_t unnoticed = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    ByteVector damaged = bytes;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    try {
      EXPECT_EQ(ReadAll(damaged), intact) << "bit " << bit;
      ++unnoticed;
    } catch (const Error&) {  // noticed
    }
  }
  // A file's frame is checked by its content: a zstd frame header has bits without a meaning.
  EXPECT_LE(unnoticed, 4U);
}

TEST(PartTest, NewerMajorVersionIsNotCalledDamage) {
  ByteVector bytes = SmallPart();
  bytes[8] = std::byte{2};
  ExpectError(
      ErrorCode::kInvalid, [&] { Part::Open(bytes); }, "format version 2", "reads 1");
}

TEST(PartTest, AnEmptyPartIsAPart) {
  PartBuilder builder;
  const ByteVector bytes = Build(&builder);
  const Part part = Part::Open(bytes);
  EXPECT_FALSE(part.versions());
  EXPECT_TRUE(part.tensors().empty());
}

TEST(PartTest, BadFilePathsAreRefused) {
  for (const std::string_view path :
       {"", "/etc/passwd", "a//b", "../up", "a/../b", "./a", ".hidden", "a/.git/b", "a/"}) {
    ExpectError(ErrorCode::kCorrupt, [&] { CheckFilePath(path); });
  }
  CheckFilePath("a/b-c.d/e f");
  ExpectError(ErrorCode::kCorrupt, [&] { CheckFilePath(std::string(5000, 'a')); });
}

TEST(PartTest, ChunksAreWholeLeavesOfTheirTensor) {
  for (const tensor::Dtype dtype : tensor::AllDtypes()) {
    EXPECT_EQ(kChunkUnits * tensor::UnitBytes(dtype) % tensor::kLeafBytes, 0U);
    EXPECT_EQ(UnitCount(dtype, 24), 24 / tensor::UnitBytes(dtype));
  }
}

}  // namespace
}  // namespace isthmus::codec
