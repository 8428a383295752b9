#include "isthmus/tensor/safetensors.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"

namespace isthmus::tensor {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::Field;
using testing::SafetensorsFile;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

SafetensorsHeader Parse(std::string_view json, size_t data_bytes) {
  return ParseSafetensors(AsBytes(SafetensorsFile(json, data_bytes)));
}

// A header with the tensor "w" of 4 bytes.
constexpr std::string_view kGood = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

TensorInfo Info(std::string name, Dtype dtype, Shape shape) {
  return {std::move(name), dtype, std::move(shape), 0, 0};
}

// What every accepted header promises.
void ExpectTilesTheFile(const SafetensorsHeader& header, size_t file_bytes) {
  uint64_t covered = header.header_bytes;
  for (const TensorInfo& info : header.tensors) {
    EXPECT_EQ(info.begin, covered);
    EXPECT_EQ(info.bytes(), BytesOf(info.name, info.dtype, info.shape));
    EXPECT_TRUE(IsTensorName(info.name));
    covered = info.end;
  }
  EXPECT_EQ(covered, file_bytes);
}

TEST(ParseSafetensorsTest, ReadsOneTensor) {
  const SafetensorsHeader header = Parse(kGood, 4);
  EXPECT_EQ(header.header_bytes, 8 + kGood.size());
  EXPECT_THAT(header.tensors, ElementsAre(AllOf(Field(&TensorInfo::name, "w"),
                                                Field(&TensorInfo::dtype, Dtype::kF32),
                                                Field(&TensorInfo::shape, Shape{1}),
                                                Field(&TensorInfo::begin, header.header_bytes),
                                                Field(&TensorInfo::end, header.header_bytes + 4))));
  EXPECT_TRUE(header.metadata.empty());
}

TEST(ParseSafetensorsTest, ReadsTheHeaderOfTheReferenceImplementation) {
  // safetensors/src/tensor.rs, test_serialization_forced_alignement.
  const SafetensorsHeader header =
      Parse(R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )", 24);
  EXPECT_EQ(header.header_bytes, 80u);
  EXPECT_EQ(header.tensors[0].shape, (Shape{1, 1, 2, 3}));
}

TEST(ParseSafetensorsTest, AFileWithoutTensorsIsValid) {
  const SafetensorsHeader header = Parse("{}      ", 0);
  EXPECT_TRUE(header.tensors.empty());
  EXPECT_EQ(header.header_bytes, 16u);
}

TEST(ParseSafetensorsTest, KeepsMetadata) {
  const SafetensorsHeader header =
      Parse(R"({"__metadata__":{"format":"pt","note":"\u00e4\n"},"w":{"dtype":"U8","shape":[2],)"
            R"("data_offsets":[0,2]}})",
            2);
  EXPECT_EQ(header.metadata,
            (std::map<std::string, std::string>{{"format", "pt"}, {"note", "\u00e4\n"}}));
  EXPECT_EQ(header.tensors.size(), 1u);
}

TEST(ParseSafetensorsTest, TheOrderOfKeysDoesNotMatter) {
  const SafetensorsHeader header =
      Parse(R"({ "w" : {"data_offsets":[0,4], "shape":[1], "dtype":"F32"} })", 4);
  EXPECT_EQ(header.tensors[0].dtype, Dtype::kF32);
}

TEST(ParseSafetensorsTest, TensorsAreInFileOrderHoweverTheyAreListed) {
  const SafetensorsHeader header = Parse(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]},)"
                                         R"("c":{"dtype":"U8","shape":[0],"data_offsets":[3,3]},)"
                                         R"("d":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                         R"("b":{"dtype":"U8","shape":[0],"data_offsets":[3,3]}})",
                                         5);
  EXPECT_THAT(header.tensors,
              ElementsAre(Field(&TensorInfo::name, "d"), Field(&TensorInfo::name, "b"),
                          Field(&TensorInfo::name, "c"), Field(&TensorInfo::name, "a")));
}

TEST(ParseSafetensorsTest, AScalarHasOneElement) {
  const SafetensorsHeader header =
      Parse(R"({"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4);
  EXPECT_TRUE(header.tensors[0].shape.empty());
}

TEST(ParseSafetensorsTest, ZeroSizedTensorsMayLieAtTheEnd) {
  const SafetensorsHeader header =
      Parse(R"({"w":{"dtype":"F32","shape":[5,0,7],"data_offsets":[0,0]}})", 0);
  EXPECT_EQ(header.tensors[0].bytes(), 0u);
}

TEST(ParseSafetensorsTest, TouchesNothingButTheHeader) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* memory =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::string json(kGood);
  json.resize(page - 8, ' ');
  const std::string file = SafetensorsFile(json, 0);
  std::memcpy(memory, file.data(), file.size());
  ASSERT_EQ(::mprotect(static_cast<char*>(memory) + page, page, PROT_NONE), 0);
  const SafetensorsHeader header =
      ParseSafetensors({static_cast<const std::byte*>(memory), page + 4});
  EXPECT_EQ(header.tensors[0].begin, page);
  ::munmap(memory, 2 * page);
}

TEST(ParseSafetensorsTest, ReadsNothingBehindAFileThatEndsAtAnUnreadablePage) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* memory =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::byte* end = static_cast<std::byte*>(memory) + page;
  ASSERT_EQ(::mprotect(end, page, PROT_NONE), 0);
  for (size_t spaces = 0; spaces < 70; ++spaces) {
    const std::string file = SafetensorsFile(
        R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})" + std::string(spaces, ' '), 0);
    std::memcpy(end - file.size(), file.data(), file.size());
    EXPECT_EQ(ParseSafetensors({end - file.size(), file.size()}).tensors.size(), 1u);
    // Cut short, so that the JSON runs into the end.
    const std::string cut = SafetensorsFile(file.substr(8, file.size() - 12), 0);
    std::memcpy(end - cut.size(), cut.data(), cut.size());
    try {
      ParseSafetensors({end - cut.size(), cut.size()});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    }
  }
  ::munmap(memory, 2 * page);
}

// A file with a bit of everything, small enough to damage in every way.
std::string Sample() {
  return SafetensorsFile(
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"U8","shape":[2,1],"data_offsets":)"
      R"([0,2]},"y.z":{"dtype":"BF16","shape":[3],"data_offsets":[2,8]}}  )",
      8);
}

void ExpectErrorOrSoundHeader(std::string_view file) {
  try {
    ExpectTilesTheFile(ParseSafetensors(AsBytes(file)), file.size());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << error.what();
  }
}

TEST(ParseSafetensorsTest, EveryChangedHeaderByteGivesAnErrorOrASoundHeader) {
  const std::string sample = Sample();
  ExpectTilesTheFile(ParseSafetensors(AsBytes(sample)), sample.size());
  for (size_t at = 0; at < sample.size() - 8; ++at) {
    std::string file = sample;
    for (int value = 0; value < 256; ++value) {
      file[at] = static_cast<char>(value);
      ExpectErrorOrSoundHeader(file);
    }
  }
}

TEST(ParseSafetensorsTest, EveryTruncationIsRefused) {
  const std::string sample = Sample();
  for (size_t length = 0; length < sample.size(); ++length) {
    // Its own allocation, so that the address sanitizer sees reads behind the end.
    const ByteVector file(AsBytes(sample).begin(),
                          AsBytes(sample).begin() + static_cast<std::ptrdiff_t>(length));
    ExpectError(ErrorCode::kCorrupt, [&] { ParseSafetensors(file); });
  }
}

TEST(ParseSafetensorsTest, EveryTruncatedJsonGivesAnErrorOrASoundHeader) {
  const std::string sample = Sample();
  for (size_t length = 0; length < sample.size() - 16; ++length) {
    ExpectErrorOrSoundHeader(SafetensorsFile(sample.substr(8, length), 8));
  }
}

TEST(MakeSafetensorsHeaderTest, IsByteForByteThatOfTheReferenceImplementation) {
  // safetensors/src/tensor.rs, test_serialization_forced_alignement and test_empty.
  const auto text = [](const ByteVector& bytes) { return std::string(AsText(bytes)); };
  EXPECT_EQ(text(MakeSafetensorsHeader({Info("attn0", Dtype::kF32, {1, 1, 2, 3})})),
            SafetensorsFile(
                R"({"attn0":{"dtype":"F32","shape":[1,1,2,3],"data_offsets":[0,24]}}       )", 0));
  EXPECT_EQ(text(MakeSafetensorsHeader({})), SafetensorsFile("{}      ", 0));
  EXPECT_EQ(text(MakeSafetensorsHeader({}, {{"framework", "pt"}})),
            SafetensorsFile(R"({"__metadata__":{"framework":"pt"}}     )", 0));
}

TEST(MakeSafetensorsHeaderTest, RoundTripsEveryDtypeAndKindOfShape) {
  std::vector<TensorInfo> tensors;
  for (Dtype dtype : AllDtypes()) {
    const std::string name(DtypeName(dtype));
    tensors.push_back(Info(name + ".matrix", dtype, {3, 8}));
    tensors.push_back(Info(name + ".empty", dtype, {4, 0, 2}));
    if (BitsOf(dtype) >= 8) tensors.push_back(Info(name + ".scalar", dtype, {}));
  }
  const std::map<std::string, std::string> metadata = {{"format", "pt"}, {"", "\"\\\n\x01\u00e4"}};
  ByteVector file = MakeSafetensorsHeader(tensors, metadata);
  EXPECT_EQ(file.size() % 8, 0u);
  uint64_t data_bytes = 0;
  for (const TensorInfo& info : tensors) data_bytes += BytesOf(info.name, info.dtype, info.shape);
  file.resize(file.size() + data_bytes);

  const SafetensorsHeader header = ParseSafetensors(file);
  EXPECT_EQ(header.metadata, metadata);
  ExpectTilesTheFile(header, file.size());
  ASSERT_EQ(header.tensors.size(), tensors.size());
  for (const TensorInfo& info : tensors) {
    const auto found = std::ranges::find(header.tensors, info.name, &TensorInfo::name);
    ASSERT_NE(found, header.tensors.end());
    EXPECT_EQ(found->dtype, info.dtype);
    EXPECT_EQ(found->shape, info.shape);
  }
}

TEST(MakeSafetensorsHeaderTest, LaysTheDataOutInTheGivenOrder) {
  ByteVector file = MakeSafetensorsHeader({Info("z", Dtype::kBf16, {3}), Info("a", Dtype::kU8, {5}),
                                           Info("\"m\\\u00e4", Dtype::kF4, {4})});
  const uint64_t begin = file.size();
  file.resize(file.size() + 6 + 5 + 2);
  const SafetensorsHeader header = ParseSafetensors(file);
  EXPECT_THAT(
      header.tensors,
      ElementsAre(
          AllOf(Field(&TensorInfo::name, "z"), Field(&TensorInfo::begin, begin)),
          AllOf(Field(&TensorInfo::name, "a"), Field(&TensorInfo::begin, begin + 6)),
          AllOf(Field(&TensorInfo::name, "\"m\\\u00e4"), Field(&TensorInfo::begin, begin + 11))));
}

template <typename... Parts>
void ExpectNotMade(const std::vector<TensorInfo>& tensors, const Parts&... parts) {
  ExpectError(
      ErrorCode::kInvalid, [&] { MakeSafetensorsHeader(tensors); }, "make safetensors header",
      parts...);
}

TEST(MakeSafetensorsHeaderTest, RefusesWhatAReaderWouldRefuse) {
  const TensorInfo good = Info("w", Dtype::kU8, {1});
  ExpectNotMade({good, good}, "\"w\"", "twice");
  ExpectNotMade({Info("", Dtype::kU8, {1})}, "0 bytes");
  ExpectNotMade({Info("__metadata__", Dtype::kU8, {1})}, "__metadata__");
  ExpectNotMade({Info("a\nb", Dtype::kU8, {1})}, "control");
  ExpectNotMade({Info("\xFF", Dtype::kU8, {1})}, "UTF-8");
  ExpectNotMade({Info(std::string(4097, 'n'), Dtype::kU8, {1})}, "4097 bytes");
  ExpectNotMade({Info("w", Dtype::kU8, Shape(33, 1))}, "32");
  ExpectNotMade({Info("w", Dtype::kF4, {1})}, "whole bytes");
  ExpectNotMade({Info("w", Dtype::kU8, {kMax})}, "64 bits");
  ExpectError(
      ErrorCode::kInvalid,
      [] {
        MakeSafetensorsHeader({}, {{"k", "\xFF"}});
      },
      "UTF-8");
}

TEST(MakeSafetensorsHeaderTest, RefusesFilesThatEndBeyond64Bits) {
  // Each tensor has 2^60 bytes; sixteen of them and a header do not fit.
  std::vector<TensorInfo> tensors;
  tensors.reserve(16);
  for (int i = 0; i < 16; ++i) {
    tensors.push_back(Info(fmt::format("w{}", i), Dtype::kU8, {uint64_t{1} << 60}));
  }
  ExpectNotMade(tensors, "64 bits");
}

TEST(BytesOfTest, IsTheProductOfTheShapeAndTheBits) {
  EXPECT_EQ(BytesOf("w", Dtype::kF32, {}), 4u);
  EXPECT_EQ(BytesOf("w", Dtype::kF32, {2, 3}), 24u);
  EXPECT_EQ(BytesOf("w", Dtype::kF4, {2, 3}), 3u);
  EXPECT_EQ(BytesOf("w", Dtype::kF6E3M2, {4}), 3u);
  EXPECT_EQ(BytesOf("w", Dtype::kF64, {7, 0}), 0u);
  EXPECT_EQ(BytesOf("w", Dtype::kU8, {(uint64_t{1} << 61) - 1}), (uint64_t{1} << 61) - 1);
}

TEST(IsTensorNameTest, AcceptsTextAndNothingElse) {
  EXPECT_TRUE(IsTensorName("model.layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(IsTensorName("a b/\"\\\u00e4"));
  EXPECT_TRUE(IsTensorName(std::string(4096, 'n')));
  EXPECT_FALSE(IsTensorName(""));
  EXPECT_FALSE(IsTensorName(std::string(4097, 'n')));
  EXPECT_FALSE(IsTensorName("__metadata__"));
  EXPECT_FALSE(IsTensorName(std::string_view("a\0b", 3)));
  EXPECT_FALSE(IsTensorName("a\x1F"));
  EXPECT_FALSE(IsTensorName("\x7F"));
  EXPECT_FALSE(IsTensorName("\xC3"));
}

}  // namespace
}  // namespace isthmus::tensor
