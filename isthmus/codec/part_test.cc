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
  entry.encoding = Encoding::kDirect;
  entry.changed = 1;
  entry.old_digest = Xxh3_128(AsBytes("old"));
  entry.new_digest = Xxh3_128(AsBytes("new"));
  entry.chunks.resize(ChunkCount(entry.dtype, 2 * units));
  return entry;
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
  PartBuilder builder;
  builder.AddTensor(Entry("layer.1.b", 8), {Bytes("payload of b")});
  builder.AddTensor(Entry("layer.1.a", kChunkUnits + 1), {{}, Bytes("payload of a, chunk 1")});
  builder.AddFile("tokenizer.json", FileKind::kContent, AsBytes("{\"vocab\":1}"));
  builder.AddFile("old.txt", FileKind::kRemoved, {});
  builder.AddFile("m.safetensors", FileKind::kShardHeader, AsBytes("header"));
  return Build(&builder, VersionPair{Sha256(AsBytes("base")), Sha256(AsBytes("target"))});
}

TEST(PartTest, WhatWasAddedIsReadBackInOrderOfNames) {
  const ByteVector bytes = SmallPart();
  const Part part = Part::Open(bytes);
  ASSERT_TRUE(part.versions());
  EXPECT_EQ(part.versions()->base, Sha256(AsBytes("base")));
  EXPECT_EQ(part.versions()->target, Sha256(AsBytes("target")));
  ASSERT_EQ(part.tensors().size(), 2U);
  const TensorEntry& a = part.tensors()[0];
  EXPECT_EQ(a.name, "layer.1.a");
  EXPECT_EQ(a.shape, tensor::Shape{kChunkUnits + 1});
  EXPECT_EQ(a.old_digest, Xxh3_128(AsBytes("old")));
  ASSERT_EQ(a.chunks.size(), 2U);
  EXPECT_EQ(a.chunks[0].bytes, 0U);
  EXPECT_EQ(AsText(part.Payload(a.chunks[1])), "payload of a, chunk 1");
  EXPECT_EQ(AsText(part.Payload(part.tensors()[1].chunks[0])), "payload of b");
  ASSERT_EQ(part.files().size(), 3U);
  EXPECT_EQ(part.files()[0].kind, FileKind::kShardHeader);
  EXPECT_EQ(part.files()[1].kind, FileKind::kRemoved);
  EXPECT_EQ(AsText(part.Content(part.files()[2])), "{\"vocab\":1}");
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
    read += entry.name + entry.old_digest.Hex() + entry.new_digest.Hex();
    for (const ChunkEntry& chunk : entry.chunks) {
      if (chunk.bytes > 0) read += AsText(part.Payload(chunk));
    }
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

TEST(PartTest, ChunksAreWholeLeavesOrTheEndOfATensor) {
  for (const tensor::Dtype dtype : tensor::AllDtypes()) {
    EXPECT_EQ(ChunkBytes(dtype) % tensor::kLeafBytes, 0U);
    EXPECT_EQ(ChunkCount(dtype, 0), 0U);
    EXPECT_EQ(ChunkCount(dtype, ChunkBytes(dtype)), 1U);
    EXPECT_EQ(ChunkCount(dtype, ChunkBytes(dtype) + 1), 2U);
  }
}

}  // namespace
}  // namespace isthmus::codec
