#include "fuzz/loose_part.h"

#include <gtest/gtest.h>

#include "isthmus/base/error.h"
#include "isthmus/base/file.h"
#include "isthmus/codec/part.h"

namespace isthmus::fuzz {
namespace {

std::vector<fs::path> GoldenParts() {
  std::vector<fs::path> parts;
  const fs::path golden = fs::path(ISTHMUS_SOURCE_DIR) / "tests/golden/must-decode";
  for (const auto& vector : fs::directory_iterator(golden)) {
    parts.push_back(vector.path() / "patch.part");
  }
  return parts;
}

// A mutator whose parts are refused for their digest would find nothing, and nobody would notice.
TEST(LoosePartTest, WhatWasTakenApartIsPutTogetherAgain) {
  for (const fs::path& path : GoldenParts()) {
    SCOPED_TRACE(path);
    const std::string text = ReadFile(path, codec::kMaxTablesBytes);
    const std::optional<LoosePart> loose = TakeApart(AsBytes(text));
    ASSERT_TRUE(loose);
    const ByteVector again = loose->Write();
    const codec::Part before = codec::Part::Open(AsBytes(text));
    const codec::Part after = codec::Part::Open(again);
    EXPECT_EQ(after.tensors().size(), before.tensors().size());
    EXPECT_EQ(after.models(), before.models());
    ASSERT_EQ(after.chunks().size(), before.chunks().size());
    for (size_t i = 0; i < before.chunks().size(); ++i) {
      const ByteSpan payload = before.Payload(before.chunks()[i]);
      EXPECT_TRUE(std::ranges::equal(after.Payload(after.chunks()[i]), payload));
    }
    ASSERT_EQ(after.files().size(), before.files().size());
    for (size_t i = 0; i < before.files().size(); ++i) {
      if (before.files()[i].kind == codec::FileKind::kRemoved) continue;
      EXPECT_EQ(after.Content(after.files()[i]), before.Content(before.files()[i]));
    }
  }
}

TEST(LoosePartTest, OtherTablesAreReached) {
  for (const fs::path& path : GoldenParts()) {
    SCOPED_TRACE(path);
    const std::string text = ReadFile(path, codec::kMaxTablesBytes);
    std::optional<ByteVector> tables = TablesOf(AsBytes(text));
    ASSERT_TRUE(tables);
    tables->push_back(std::byte{0});
    const std::optional<ByteVector> forged = WithTables(AsBytes(text), *tables);
    ASSERT_TRUE(forged);
    try {
      codec::Part::Open(*forged);
      ADD_FAILURE() << "a byte behind the tables was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find("digest"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace isthmus::fuzz
