#include "isthmus/ranks/share.h"

#include <gmock/gmock.h>

#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/temp_dir.h"

namespace isthmus::ranks {
namespace {

using tensor::Dtype;
using testing::ExpectError;
using testing::SafetensorsFile;
using testing::TempDir;

class ShareTest : public ::testing::Test {
 protected:
  // A file with tensor "w" of 3 x 2 bytes, and what its metadata says of rows.
  void Write(const std::string& rows, const std::string& name = "a.safetensors") {
    const std::string metadata =
        rows.empty() ? "" : R"("__metadata__":{"isthmus.rows":")" + rows + R"("},)";
    dir_.Write(
        name, SafetensorsFile(
                  "{" + metadata + R"("w":{"dtype":"U8","shape":[3,2],"data_offsets":[0,6]}})", 6));
  }
  ShareDirectory Open() { return ShareDirectory::Open(dir_.path()); }
  template <typename... Parts>
  void ExpectRefused(ErrorCode code, const Parts&... parts) {
    ExpectError(
        code, [this] { Open(); }, "share", parts...);
  }

  TempDir dir_;
};

TEST_F(ShareTest, ATensorIsWholeUnlessTheFileSaysOtherwise) {
  Write("");
  const ShareDirectory share = Open();
  ASSERT_EQ(share.tensors().size(), 1u);
  EXPECT_EQ(share.tensors()[0].held, (HeldRows{"w", Dtype::kU8, {3, 2}, 0, 3}));
  EXPECT_EQ(share.tensors()[0].bytes.size(), 6u);
}

TEST_F(ShareTest, RowsOfALargerTensor) {
  Write(R"({\"w\":[5,100]})");
  EXPECT_EQ(Open().tensors()[0].held, (HeldRows{"w", Dtype::kU8, {100, 2}, 5, 3}));
}

TEST_F(ShareTest, SeveralFilesMayHoldRowsOfOneTensor) {
  Write(R"({\"w\":[5,100]})");
  Write(R"({\"w\":[50,100]})", "b.safetensors");
  dir_.Write("notes.txt", "not a shard");
  const ShareDirectory share = Open();
  ASSERT_EQ(share.tensors().size(), 2u);
  EXPECT_EQ(share.tensors()[1].held.first_row, 50u);
}

TEST_F(ShareTest, WhatItSaysOfRowsMustFit) {
  Write(R"({\"w\":[98,100]})");
  ExpectRefused(ErrorCode::kCorrupt, "a.safetensors", "3 rows from row 98 on, of 100");
  Write(R"({\"w\":[5,4]})");
  ExpectRefused(ErrorCode::kCorrupt, "a.safetensors");
  Write(R"({\"w\":[18446744073709551615,18446744073709551615]})");
  ExpectRefused(ErrorCode::kCorrupt, "a.safetensors");
  Write(R"({\"w\":[0,18446744073709551615]})");
  ExpectRefused(ErrorCode::kCorrupt, "a.safetensors");
  for (const char* rows : {R"({\"w\":[1]})", R"({\"w\":[1,2,3]})", R"({\"w\":7})",
                           R"({\"w\":[-1,100]})", R"({\"x\":[0,3]})", "[]", "{", "7"}) {
    Write(rows);
    ExpectRefused(ErrorCode::kCorrupt, "a.safetensors");
  }
}

TEST_F(ShareTest, AScalarHasNoRows) {
  dir_.Write("a.safetensors",
             SafetensorsFile(R"({"__metadata__":{"isthmus.rows":"{\"s\":[0,1]}"},)"
                             R"("s":{"dtype":"U8","shape":[],"data_offsets":[0,1]}})",
                             1));
  ExpectRefused(ErrorCode::kCorrupt, "without dimensions");
}

TEST_F(ShareTest, NothingThereIsNotFound) {
  ExpectRefused(ErrorCode::kNotFound, "no *.safetensors file");
  ExpectError(ErrorCode::kNotFound, [this] { ShareDirectory::Open(dir_ / "missing"); });
}

TEST_F(ShareTest, AMalformedFileIsNamed) {
  dir_.Write("a.safetensors", "torn");
  ExpectRefused(ErrorCode::kCorrupt, "a.safetensors");
}

TEST_F(ShareTest, AChangeIsNoticed) {
  Write("");
  const ShareDirectory share = Open();
  EXPECT_NO_THROW(share.CheckUnchanged());
  dir_.Write("a.safetensors", "shorter");
  ExpectError(
      ErrorCode::kConflict, [&] { share.CheckUnchanged(); }, "a.safetensors", "changed");
}

}  // namespace
}  // namespace isthmus::ranks
