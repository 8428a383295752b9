#include "isthmus/tensor/dtype.h"

#include <algorithm>
#include <array>

#include "isthmus/base/error.h"

namespace isthmus::tensor {
namespace {

struct Row {
  Dtype dtype;
  std::string_view name;
  size_t bits;
};

// Row i describes the dtype with stored value i + 1.
constexpr std::array<Row, 22> kRows = {{
    {Dtype::kBool, "BOOL", 8},
    {Dtype::kF4, "F4", 4},
    {Dtype::kF6E2M3, "F6_E2M3", 6},
    {Dtype::kF6E3M2, "F6_E3M2", 6},
    {Dtype::kU8, "U8", 8},
    {Dtype::kI8, "I8", 8},
    {Dtype::kF8E5M2, "F8_E5M2", 8},
    {Dtype::kF8E4M3, "F8_E4M3", 8},
    {Dtype::kF8E8M0, "F8_E8M0", 8},
    {Dtype::kF8E4M3Fnuz, "F8_E4M3FNUZ", 8},
    {Dtype::kF8E5M2Fnuz, "F8_E5M2FNUZ", 8},
    {Dtype::kI16, "I16", 16},
    {Dtype::kU16, "U16", 16},
    {Dtype::kF16, "F16", 16},
    {Dtype::kBf16, "BF16", 16},
    {Dtype::kI32, "I32", 32},
    {Dtype::kU32, "U32", 32},
    {Dtype::kF32, "F32", 32},
    {Dtype::kC64, "C64", 64},
    {Dtype::kF64, "F64", 64},
    {Dtype::kI64, "I64", 64},
    {Dtype::kU64, "U64", 64},
}};

constexpr bool RowsAreInIdOrder() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(RowsAreInIdOrder());

constexpr auto kAll = [] {
  std::array<Dtype, kRows.size()> all{};
  for (size_t i = 0; i < kRows.size(); ++i) all[i] = kRows[i].dtype;
  return all;
}();

const Row& RowOf(Dtype dtype) {
  const size_t id = static_cast<size_t>(dtype);
  if (id == 0 || id > kRows.size()) {
    Throw(ErrorCode::kInternal, "look up dtype {}: ids 1 to {} exist", id, kRows.size());
  }
  return kRows[id - 1];
}

}  // namespace

std::string_view DtypeName(Dtype dtype) { return RowOf(dtype).name; }

std::optional<Dtype> ParseDtype(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &Row::name);
  if (row == kRows.end()) return std::nullopt;
  return row->dtype;
}

std::optional<Dtype> DtypeFromId(uint8_t id) {
  if (id == 0 || id > kRows.size()) return std::nullopt;
  return kRows[id - size_t{1}].dtype;
}

std::span<const Dtype> AllDtypes() { return kAll; }

size_t BitsOf(Dtype dtype) { return RowOf(dtype).bits; }

size_t UnitBytes(Dtype dtype) {
  const size_t bits = BitsOf(dtype);
  if (bits <= 8) return 1;
  return bits == 16 ? 2 : 4;
}

}  // namespace isthmus::tensor
