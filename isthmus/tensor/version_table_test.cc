#include "isthmus/tensor/version_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "isthmus/base/random.h"
#include "tests/support/errors.h"

namespace isthmus::tensor {
namespace {

using testing::ExpectError;

template <size_t N>
DigestBytes<N> Filled(uint8_t value) {
  DigestBytes<N> digest;
  digest.bytes.fill(std::byte{value});
  return digest;
}

VersionTable Sample() {
  VersionTable table;
  table.tensors = {{"a", Dtype::kBf16, {2, 300}, "m1.safetensors", Filled<16>(1)},
                   {"a.b", Dtype::kF32, {}, "m2.safetensors", Filled<16>(2)},
                   {"b", Dtype::kF4, {0, 7}, "m1.safetensors", Filled<16>(3)}};
  table.shards = {{"m1.safetensors", Filled<32>(4)}, {"m2.safetensors", Filled<32>(5)}};
  table.files = {{"config.json", 0, Filled<32>(6)}, {"sub/x.txt", 1 << 20, Filled<32>(7)}};
  return table;
}

ByteVector WithMagic(const ByteVector& rest) {
  ByteWriter writer;
  writer.Append(AsBytes("isthmus version table 1\n"));
  writer.Append(rest);
  return writer.Release();
}

// Written down a second time, without any checks: what Parse must refuse, Serialize never makes.
ByteVector Encode(const VersionTable& table) {
  ByteWriter writer;
  writer.Varint(table.tensors.size());
  for (const VersionTable::Tensor& tensor : table.tensors) {
    writer.String(tensor.name);
    writer.U8(static_cast<uint8_t>(tensor.dtype));
    writer.Varint(tensor.shape.size());
    for (uint64_t dim : tensor.shape) writer.Varint(dim);
    writer.String(tensor.shard);
    writer.Append(tensor.digest.span());
  }
  writer.Varint(table.shards.size());
  for (const VersionTable::Shard& shard : table.shards) {
    writer.String(shard.file);
    writer.Append(shard.header.span());
  }
  writer.Varint(table.files.size());
  for (const VersionTable::File& file : table.files) {
    writer.String(file.path);
    writer.Varint(file.bytes);
    writer.Append(file.sha256.span());
  }
  return WithMagic(writer.Release());
}

// Neither direction accepts the sample once `change` was made to it.
template <typename Change>
void ExpectBothRefuse(const Change& change, std::string_view part) {
  VersionTable table = Sample();
  change(table);
  ExpectError(
      ErrorCode::kInternal, [&] { table.Serialize(); }, part);
  ExpectError(
      ErrorCode::kCorrupt, [&] { VersionTable::Parse(Encode(table)); }, part);
}

TEST(VersionTableTest, TheBytesAreThoseOfTheSpecification) {
  VersionTable table;
  table.tensors = {{"w", Dtype::kBf16, {2, 300}, "m", Filled<16>(0xAA)}};
  table.shards = {{"m", Filled<32>(0xBB)}};
  table.files = {{"c", 128, Filled<32>(0xCC)}};
  const std::string expected = std::string("isthmus version table 1\n") + "\x01" + "\x01w" +
                               "\x0F" + "\x02\x02\xAC\x02" + "\x01m" +
                               std::string(16, '\xAA') +                     // the tensor
                               "\x01" + "\x01m" + std::string(32, '\xBB') +  // the shard
                               "\x01" +
                               "\x01"
                               "c" +
                               "\x80\x01" + std::string(32, '\xCC');
  EXPECT_EQ(AsText(table.Serialize()), expected);
  EXPECT_EQ(table.Digest(), Sha256(AsBytes(expected)));
}

TEST(VersionTableTest, AnEmptyTableHasItsMagicAndThreeZeros) {
  const VersionTable empty;
  EXPECT_EQ(empty.Serialize(), WithMagic(ByteVector(3)));
  EXPECT_EQ(VersionTable::Parse(empty.Serialize()), empty);
}

TEST(VersionTableTest, RoundTrips) {
  const VersionTable table = Sample();
  EXPECT_EQ(table.Serialize(), Encode(table));
  EXPECT_EQ(VersionTable::Parse(table.Serialize()), table);
}

TEST(VersionTableTest, EveryFieldChangesTheDigest) {
  const Sha256Digest digest = Sample().Digest();
  const auto differs = [&](const auto& change) {
    VersionTable table = Sample();
    change(table);
    return table.Digest() != digest;
  };
  EXPECT_TRUE(differs([](VersionTable& t) { t.tensors[0].name = "A"; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.tensors[0].dtype = Dtype::kF16; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.tensors[0].shape = {300, 2}; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.tensors[0].shard = "m2.safetensors"; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.tensors[0].digest = Filled<16>(9); }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.shards[0].header = Filled<32>(9); }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.files[0].path = "confih.json"; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.files[0].bytes = 1; }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.files[0].sha256 = Filled<32>(9); }));
  EXPECT_TRUE(differs([](VersionTable& t) { t.files.pop_back(); }));
}

TEST(VersionTableTest, FindsTensorsByName) {
  const VersionTable table = Sample();
  EXPECT_EQ(table.Find("a.b"), &table.tensors[1]);
  EXPECT_EQ(table.Find("b"), &table.tensors[2]);
  for (std::string_view name : {"", "A", "a.", "a.bb", "c"}) EXPECT_EQ(table.Find(name), nullptr);
}

TEST(VersionTableTest, RefusesEveryTruncation) {
  const ByteVector whole = Sample().Serialize();
  for (size_t length = 0; length < whole.size(); ++length) {
    const ByteVector bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    ExpectError(ErrorCode::kCorrupt, [&] { VersionTable::Parse(bytes); });
  }
}

TEST(VersionTableTest, RefusesBytesAfterTheEnd) {
  ByteVector bytes = Sample().Serialize();
  bytes.push_back(std::byte{0});
  ExpectError(
      ErrorCode::kCorrupt, [&] { VersionTable::Parse(bytes); }, "1 unexpected bytes");
}

TEST(VersionTableTest, EveryChangedByteGivesAnErrorOrATableWithExactlyTheseBytes) {
  const ByteVector sample = Sample().Serialize();
  for (size_t at = 0; at < sample.size(); ++at) {
    ByteVector bytes = sample;
    for (int value = 0; value < 256; ++value) {
      bytes[at] = static_cast<std::byte>(value);
      try {
        EXPECT_EQ(VersionTable::Parse(bytes).Serialize(), bytes);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
      }
    }
  }
}

TEST(VersionTableTest, RefusesAnotherFormat) {
  ByteVector bytes = Sample().Serialize();
  bytes[22] = std::byte{'2'};
  ExpectError(
      ErrorCode::kCorrupt, [&] { VersionTable::Parse(bytes); }, "does not begin with");
}

TEST(VersionTableTest, RefusesCountsThatCannotFitBeforeItAllocates) {
  for (uint64_t count : {uint64_t{5}, uint64_t{1} << 40, ~uint64_t{0}}) {
    for (size_t list = 0; list < 3; ++list) {
      ByteWriter writer;
      for (size_t i = 0; i < list; ++i) writer.U8(0);
      writer.Varint(count);
      writer.Append(ByteVector(100));
      const ByteVector bytes = WithMagic(writer.Release());
      ExpectError(
          ErrorCode::kCorrupt, [&] { VersionTable::Parse(bytes); }, fmt::format("{} ", count),
          "cannot fit");
    }
  }
}

TEST(VersionTableTest, RefusesUnknownDtypes) {
  for (int id : {0, 23, 255}) {
    VersionTable table = Sample();
    table.tensors[0].dtype = static_cast<Dtype>(id);
    ExpectError(
        ErrorCode::kCorrupt, [&] { VersionTable::Parse(Encode(table)); }, "\"a\"",
        fmt::format("dtype id {}", id));
  }
}

TEST(VersionTableTest, RefusesUnsortedAndRepeatedNames) {
  const auto swap = [](auto& entries) { std::swap(entries[0], entries[1]); };
  ExpectBothRefuse([&](VersionTable& t) { swap(t.tensors); }, "strictly ascending");
  ExpectBothRefuse([&](VersionTable& t) { swap(t.shards); }, "strictly ascending");
  ExpectBothRefuse([&](VersionTable& t) { swap(t.files); }, "strictly ascending");
  ExpectBothRefuse([](VersionTable& t) { t.tensors[1] = t.tensors[0]; }, "strictly ascending");
  ExpectBothRefuse([](VersionTable& t) { t.shards[1] = t.shards[0]; }, "strictly ascending");
  ExpectBothRefuse([](VersionTable& t) { t.files[1] = t.files[0]; }, "strictly ascending");
}

TEST(VersionTableTest, RefusesNamesThatNoTensorHas) {
  ExpectBothRefuse([](VersionTable& t) { t.tensors[0].name = ""; }, "not a tensor name");
  ExpectBothRefuse([](VersionTable& t) { t.tensors[0].name = "A\n"; }, "not a tensor name");
  ExpectBothRefuse([](VersionTable& t) { t.tensors[2].name = "\x80"; }, "not a tensor name");
}

TEST(VersionTableTest, RefusesRanksOverTheLimit) {
  ExpectBothRefuse([](VersionTable& t) { t.tensors[0].shape = Shape(33, 1); }, "rank 33");
}

TEST(VersionTableTest, RefusesSizesThatNoTensorHas) {
  VersionTable table = Sample();
  table.tensors[0].shape = {~uint64_t{0}};
  ExpectError(
      ErrorCode::kCorrupt, [&] { table.Serialize(); }, "64 bits");
  ExpectError(
      ErrorCode::kCorrupt, [&] { VersionTable::Parse(Encode(table)); }, "64 bits");
}

TEST(VersionTableTest, RefusesAShardThatIsNotListed) {
  ExpectBothRefuse([](VersionTable& t) { t.tensors[0].shard = "m3"; }, "\"m3\"");
}

TEST(VersionTableTest, RefusesPathsThatLeadOutOfTheDirectory) {
  ExpectBothRefuse([](VersionTable& t) { t.files[0].path = "../x"; }, "\"../x\"");
  ExpectBothRefuse([](VersionTable& t) { t.files[0].path = "/etc/x"; }, "\"/etc/x\"");
  ExpectBothRefuse([](VersionTable& t) { t.shards[0].file = "../m"; }, "\"../m\"");
}

TEST(VersionTableTest, RefusesAFileThatIsAlsoAShard) {
  ExpectBothRefuse([](VersionTable& t) { t.files[1].path = "m1.safetensors"; }, "as a shard");
}

TEST(IsFilePathTest, AcceptsPathsThatStayInsideAndAreNotHidden) {
  for (std::string_view path :
       {"a", "config.json", "sub/dir/x.txt", "a b", "a..b", "a.", "\u00e4"}) {
    EXPECT_TRUE(IsFilePath(path)) << path;
  }
  for (std::string_view path : {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/.",
                                "a/./b", ".a", "a/.b", "a\nb", "a\x7F"}) {
    EXPECT_FALSE(IsFilePath(path)) << path;
  }
  EXPECT_FALSE(IsFilePath(std::string_view("a\0b", 3)));
  EXPECT_TRUE(IsFilePath(std::string(4096, 'a')));
  EXPECT_FALSE(IsFilePath(std::string(4097, 'a')));
}

TEST(TensorDigestTest, IsTheDigestOfTheLeafDigests) {
  ByteVector bytes(3 * kLeafBytes + 5);
  SystemRandom().Fill(bytes);
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, kLeafBytes - 1, kLeafBytes, kLeafBytes + 1,
                        2 * kLeafBytes, 3 * kLeafBytes + 5}) {
    ByteVector leaves;
    for (uint64_t at = 0; at < size; at += kLeafBytes) {
      const Xxh128Digest leaf =
          Xxh3_128(ByteSpan(bytes).subspan(at, std::min(kLeafBytes, size - at)));
      leaves.insert(leaves.end(), leaf.bytes.begin(), leaf.bytes.end());
    }
    EXPECT_EQ(TensorDigest(ByteSpan(bytes).first(size)), Xxh3_128(leaves)) << size;
  }
}

TEST(TensorDigestTest, LeavesMayBeAppendedPieceByPiece) {
  ByteVector bytes(5 * kLeafBytes + 7);
  SystemRandom().Fill(bytes);
  std::vector<Xxh128Digest> leaves;
  AppendLeafDigests(ByteSpan(bytes).first(2 * kLeafBytes), &leaves);
  AppendLeafDigests({}, &leaves);
  AppendLeafDigests(ByteSpan(bytes).subspan(2 * kLeafBytes), &leaves);
  EXPECT_EQ(leaves.size(), 6u);
  EXPECT_EQ(DigestOfLeaves(leaves), TensorDigest(bytes));
}

TEST(TensorDigestTest, AnEmptyTensorHasTheDigestOfNothing) {
  EXPECT_EQ(TensorDigest({}).Hex(), "99aa06d3014798d86001c324468d497f");
}

}  // namespace
}  // namespace isthmus::tensor
