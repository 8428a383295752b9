#include "isthmus/tensor/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace isthmus::tensor {
namespace {

TEST(DtypeTest, EveryDtypeIsFoundByItsNameAndById) {
  std::set<std::string_view> names;
  for (Dtype dtype : AllDtypes()) {
    names.insert(DtypeName(dtype));
    EXPECT_EQ(ParseDtype(DtypeName(dtype)), dtype);
    EXPECT_EQ(DtypeFromId(static_cast<uint8_t>(dtype)), dtype);
  }
  EXPECT_EQ(AllDtypes().size(), 22u);
  EXPECT_EQ(names.size(), 22u);
}

// The list of docs/patch-format.md, section 5: ids are stored and never change.
TEST(DtypeTest, IdsAreThoseOfThePatchFormat) {
  std::string list;
  for (Dtype dtype : AllDtypes()) {
    list += std::to_string(static_cast<int>(dtype)) + " " + std::string(DtypeName(dtype)) + ", ";
  }
  EXPECT_EQ(list,
            "1 BOOL, 2 F4, 3 F6_E2M3, 4 F6_E3M2, 5 U8, 6 I8, 7 F8_E5M2, 8 F8_E4M3, 9 F8_E8M0, "
            "10 F8_E4M3FNUZ, 11 F8_E5M2FNUZ, 12 I16, 13 U16, 14 F16, 15 BF16, 16 I32, 17 U32, "
            "18 F32, 19 C64, 20 F64, 21 I64, 22 U64, ");
}

TEST(DtypeTest, OtherNamesAndIdsAreNoDtypes) {
  for (std::string_view name : {"", "f32", "F32 ", "F128", "BFLOAT16", "F8_E4M3FN"}) {
    EXPECT_EQ(ParseDtype(name), std::nullopt) << name;
  }
  for (int id = 0; id < 256; ++id) {
    EXPECT_EQ(DtypeFromId(static_cast<uint8_t>(id)).has_value(), id >= 1 && id <= 22) << id;
  }
}

TEST(DtypeTest, UnitsAreAtMostFourBytesAndFillTheElement) {
  for (Dtype dtype : AllDtypes()) {
    const size_t bits = BitsOf(dtype);
    const size_t unit_bits = UnitBytes(dtype) * 8;
    EXPECT_TRUE(unit_bits == 8 || unit_bits == 16 || unit_bits == 32) << DtypeName(dtype);
    EXPECT_TRUE(bits < 8 ? unit_bits == 8 : bits % unit_bits == 0) << DtypeName(dtype);
  }
}

TEST(DtypeTest, SizesAreThoseOfTheElements) {
  EXPECT_EQ(BitsOf(Dtype::kF4), 4u);
  EXPECT_EQ(BitsOf(Dtype::kF6E2M3), 6u);
  EXPECT_EQ(BitsOf(Dtype::kBool), 8u);
  EXPECT_EQ(BitsOf(Dtype::kF8E4M3), 8u);
  EXPECT_EQ(BitsOf(Dtype::kBf16), 16u);
  EXPECT_EQ(BitsOf(Dtype::kF32), 32u);
  EXPECT_EQ(BitsOf(Dtype::kC64), 64u);
  EXPECT_EQ(UnitBytes(Dtype::kBf16), 2u);
  EXPECT_EQ(UnitBytes(Dtype::kF32), 4u);
  EXPECT_EQ(UnitBytes(Dtype::kF64), 4u);
}

}  // namespace
}  // namespace isthmus::tensor
