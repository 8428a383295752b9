// Every rule of the format, broken once.
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "isthmus/tensor/safetensors.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"

namespace isthmus::tensor {
namespace {

using testing::ExpectError;
using testing::SafetensorsFile;

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

SafetensorsHeader Parse(std::string_view json, size_t data_bytes) {
  return ParseSafetensors(AsBytes(SafetensorsFile(json, data_bytes)));
}

template <typename... Parts>
void ExpectRefused(std::string_view json, size_t data_bytes, const Parts&... parts) {
  SCOPED_TRACE(json.substr(0, 200));
  ExpectError(
      ErrorCode::kCorrupt, [&] { Parse(json, data_bytes); }, parts...);
}

// A header with the tensor "w" of 4 bytes.
constexpr std::string_view kGood = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

// As kGood, with some text replaced.
std::string Changed(std::string_view from, std::string_view to) {
  std::string json(kGood);
  return json.replace(json.find(from), from.size(), to);
}

TEST(SafetensorsRefusalTest, RefusesFilesWithoutALength) {
  for (size_t bytes = 0; bytes < 8; ++bytes) {
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseSafetensors(ByteVector(bytes)); },
        fmt::format("{} bytes", bytes), "at least 8");
  }
}

TEST(SafetensorsRefusalTest, RefusesHeadersThatEndAfterTheFile) {
  for (uint64_t more : {uint64_t{1}, uint64_t{5}, kMaxHeaderBytes - 2}) {
    std::string file = "12345678{}";
    StoreLe<uint64_t>(reinterpret_cast<std::byte*>(file.data()), 2 + more);
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseSafetensors(AsBytes(file)); },
        fmt::format("{} bytes", 2 + more), "only 2");
  }
}

TEST(SafetensorsRefusalTest, RefusesHeadersOverTheLimit) {
  for (uint64_t bytes : {kMaxHeaderBytes + 1, kMax - 7, kMax}) {
    std::string file = "12345678{}";
    StoreLe<uint64_t>(reinterpret_cast<std::byte*>(file.data()), bytes);
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseSafetensors(AsBytes(file)); },
        fmt::format("{} bytes", bytes), "at most 100000000");
  }
}

TEST(SafetensorsRefusalTest, RefusesAnEmptyHeader) { ExpectRefused("", 0, "expected '{'"); }

TEST(SafetensorsRefusalTest, RefusesHeadersThatDoNotBeginWithABrace) {
  for (std::string_view before : {" ", "\n", "\xEF\xBB\xBF", "["}) {
    ExpectRefused(std::string(before) + std::string(kGood), 4, "begins with", "expected '{'");
  }
}

TEST(SafetensorsRefusalTest, RefusesPaddingOtherThanSpaces) {
  for (char c : {'\n', '\t', '\r', '\0', 'x'}) {
    ExpectRefused(std::string(kGood) + c, 4, "ends with", "spaces");
    ExpectRefused(std::string(kGood) + "  " + c + " ", 4, "ends with", "spaces");
  }
}

TEST(SafetensorsRefusalTest, RefusesWhatIsNotJson) {
  for (std::string_view json : {"{}{}", "{\"a\"}", "{a:1}", "{\"a\":{}", "{,}", "{}}", "{]}",
                                "{\"a\":01}", "{'a':1}", "{\"a\":\"\t\"}"}) {
    ExpectRefused(json, 0, "not JSON");
  }
}

TEST(SafetensorsRefusalTest, RefusesDeepNesting) {
  ExpectRefused("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0,
                "not JSON");
}

TEST(SafetensorsRefusalTest, RefusesInvalidUtf8) {
  for (std::string_view name : {"\xFF", "\xC0\x80", "\xE4", "\xED\xA0\x80"}) {
    ExpectRefused(Changed("w", name), 4);
  }
}

TEST(SafetensorsRefusalTest, RefusesEscapedHalvesOfCharacters) {
  for (std::string_view name : {R"(\ud800)", R"(\udc00)", R"(\ud800\u0041)", R"(\udc00\ud800)"}) {
    ExpectRefused(Changed("w", name), 4);
    ExpectRefused(R"({"__metadata__":{"k":")" + std::string(name) + R"("}})", 0);
    ExpectRefused(R"({"__metadata__":{")" + std::string(name) + R"(":"v"}})", 0);
  }
}

TEST(SafetensorsRefusalTest, RefusesANameThatOccursTwice) {
  const std::string tensor = R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  ExpectRefused("{" + tensor + "," + tensor + "}", 0, "\"w\"", "twice");
  // The same name, once escaped.
  ExpectRefused("{" + tensor + R"(,"\u0077":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0,
                "\"w\"", "twice");
}

TEST(SafetensorsRefusalTest, RefusesAnEmptyName) {
  ExpectRefused(Changed("\"w\"", "\"\""), 4, "0 bytes", "1 to 4096");
}

TEST(SafetensorsRefusalTest, RefusesNamesOverTheLimit) {
  EXPECT_EQ(Parse(Changed("w", std::string(4096, 'n')), 4).tensors[0].name.size(), 4096u);
  ExpectRefused(Changed("w", std::string(4097, 'n')), 4, "4097 bytes", "1 to 4096");
}

TEST(SafetensorsRefusalTest, RefusesControlCharactersInNames) {
  for (std::string_view name : {R"(a\n)", R"(\u0000)", R"(\u001f)", "\x7F", R"(\u007f)"}) {
    ExpectRefused(Changed("w", name), 4, "without control characters");
  }
}

TEST(SafetensorsRefusalTest, RefusesATensorThatIsNoObject) {
  for (std::string_view value : {"1", "null", "[]", "\"x\""}) {
    ExpectRefused("{\"w\":" + std::string(value) + "}", 0, "\"w\"", "expected an object");
  }
}

TEST(SafetensorsRefusalTest, RefusesUnknownKeys) {
  ExpectRefused(Changed("\"dtype\"", R"("strides":[1],"dtype")"), 4, "\"w\"", "\"strides\"");
}

TEST(SafetensorsRefusalTest, RefusesMissingKeys) {
  for (std::string_view key :
       {R"("dtype":"F32",)", R"("shape":[1],)", R"(,"data_offsets":[0,4])"}) {
    ExpectRefused(Changed(key, ""), 4, "\"w\"", "2 of the keys");
  }
}

TEST(SafetensorsRefusalTest, RefusesAKeyOfATensorThatOccursTwice) {
  ExpectRefused(Changed("\"shape\"", R"("dtype":"F32","shape")"), 4, "\"w\"", "\"dtype\"", "twice");
}

TEST(SafetensorsRefusalTest, RefusesUnknownDtypes) {
  ExpectRefused(Changed("F32", "F33"), 4, "\"w\"", "\"F33\"");
  ExpectRefused(Changed("F32", "f32"), 4, "\"f32\"");
}

TEST(SafetensorsRefusalTest, RefusesADtypeThatIsNoString) {
  ExpectRefused(Changed("\"F32\"", "18"), 4, "\"w\", dtype", "expected a string");
}

TEST(SafetensorsRefusalTest, RefusesRanksOverTheLimit) {
  std::string ones = "1";
  for (size_t rank = 1; rank < kMaxRank; ++rank) ones += ",1";
  EXPECT_EQ(Parse(Changed("[1]", "[" + ones + "]"), 4).tensors[0].shape.size(), kMaxRank);
  ExpectRefused(Changed("[1]", "[1," + ones + "]"), 4, "\"w\", shape", "32 numbers allowed");
}

TEST(SafetensorsRefusalTest, RefusesShapesThatAreNoUnsignedIntegers) {
  for (std::string_view shape : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[null]", "[[1]]",
                                 "[18446744073709551616]", "[true]"}) {
    ExpectRefused(Changed("[1]", shape), 4);
  }
  for (std::string_view shape : {"1", "{}", "null", "\"1\""}) {
    ExpectRefused(Changed("[1]", shape), 4, "\"w\", shape", "expected an array");
  }
}

TEST(SafetensorsRefusalTest, RefusesShapesWhoseSizeOverflows) {
  for (std::string_view shape :
       {"[4294967296,4294967296]", "[18446744073709551615]", "[4611686018427387905]",
        "[18446744073709551615,18446744073709551615,0]", "[576460752303423489]"}) {
    ExpectRefused(Changed("[1]", shape), 4, "\"w\"", "larger than 64 bits can count");
  }
}

TEST(SafetensorsRefusalTest, RefusesSubByteTensorsThatDoNotFillTheirLastByte) {
  ExpectRefused(R"({"w":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "12 bits",
                "whole bytes");
  ExpectRefused(R"({"w":{"dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2]}})", 2, "12 bits",
                "whole bytes");
}

TEST(SafetensorsRefusalTest, RefusesOffsetsThatAreNotTwo) {
  for (std::string_view offsets : {"[]", "[4]", "[0,4,4]", "[0,4,4,8]"}) {
    ExpectRefused(Changed("[0,4]", offsets), 4, "\"w\", data_offsets");
  }
}

TEST(SafetensorsRefusalTest, RefusesOffsetsThatFall) {
  ExpectRefused(Changed("[0,4]", "[4,0]"), 4, "\"w\"", "[4, 0]", "rising");
}

TEST(SafetensorsRefusalTest, RefusesOffsetsBeyondTheFile) {
  ExpectRefused(Changed("[0,4]", "[0,4]"), 3, "\"w\"", "[0, 4]", "3 bytes");
  ExpectRefused(Changed("[0,4]", "[18446744073709551612,18446744073709551615]"), 4,
                "18446744073709551615", "4 bytes");
}

TEST(SafetensorsRefusalTest, RefusesOffsetsThatDisagreeWithTheShape) {
  ExpectRefused(Changed("[1]", "[2]"), 4, "\"w\"", "span 4 bytes", "F32 [2] has 8");
  ExpectRefused(Changed("[0,4]", "[0,0]"), 0, "span 0 bytes", "F32 [1] has 4");
}

TEST(SafetensorsRefusalTest, RefusesAHole) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                5, "\"b\"", "begins at byte 3", "after the end", "2");
  ExpectRefused(Changed("[0,4]", "[1,5]"), 5, "\"w\"", "begins at byte 1");
}

TEST(SafetensorsRefusalTest, RefusesAnOverlap) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                3, "\"b\"", "begins at byte 1", "before the end");
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                2, "\"b\"", "before the end");
}

TEST(SafetensorsRefusalTest, RefusesBytesAfterTheLastTensor) {
  ExpectRefused(kGood, 5, "1 bytes after the last tensor");
  ExpectRefused("{}", 3, "3 bytes after the last tensor");
}

TEST(SafetensorsRefusalTest, RefusesAZeroSizedTensorInsideAnother) {
  ExpectRefused(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})",
                4, "\"b\"", "before the end");
}

TEST(SafetensorsRefusalTest, RefusesMetadataThatIsNotAMapOfStrings) {
  for (std::string_view value : {"1", "null", "[]", "\"x\"", R"({"k":1})", R"({"k":null})",
                                 R"({"k":{}})", R"({"k":["v"]})"}) {
    ExpectRefused("{\"__metadata__\":" + std::string(value) + "}", 0, "__metadata__", "expected a");
  }
}

TEST(SafetensorsRefusalTest, RefusesMetadataKeysThatOccurTwice) {
  ExpectRefused(R"({"__metadata__":{"k":"1","k":"2"}})", 0, "\"k\"", "twice");
  ExpectRefused(R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__", "twice");
}

}  // namespace
}  // namespace isthmus::tensor
