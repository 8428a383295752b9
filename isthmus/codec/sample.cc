#include "isthmus/codec/sample.h"

#include <algorithm>
#include <bit>

#include "isthmus/codec/scan.h"
#include "isthmus/codec/sparse.h"

namespace isthmus::codec {
namespace {

// Keys are counted at the start of each block that is compared.
constexpr size_t kCountedOfBlock = 256;

bool MayBeCodes(tensor::Dtype dtype) {
  using tensor::Dtype;
  return dtype == Dtype::kF4 || dtype == Dtype::kU8 || dtype == Dtype::kI32 || dtype == Dtype::kU32;
}

template <uint32_t kBits>
void AddChange(typename Element<kBits>::Bits from, typename Element<kBits>::Bits to, KeyRule rule,
               KeySample* sample) {
  sample->steps.push_back(StepBetween<kBits>(from, to));
  sample->keys.push_back(KeyOf<kBits>(from, rule));
}

template <typename T>
class Sampler {
 public:
  static constexpr uint32_t kBits = 8 * sizeof(T);

  Sampler(tensor::Dtype dtype, ByteSpan before, ByteSpan after)
      : before_(before),
        after_(after),
        units_(before.size() / sizeof(T)),
        may_be_codes_(MayBeCodes(dtype)),
        unit_rule_(KeyRuleOf(Elements::kUnits, dtype)),
        code_rule_(KeyRuleOf(Elements::kCodes4, dtype)) {}

  ChunkSample Run(size_t stride) {
    for (size_t at = 0; at < units_; at += kBlockElements * stride) {
      const size_t end = std::min<size_t>(at + kBlockElements, units_);
      CompareBlock(at, end);
      CountKeys(at, std::min<size_t>(at + kCountedOfBlock, end));
    }
    SetElements(1, &sample_.units);
    if (may_be_codes_) SetElements(kBits / 4, &sample_.codes);
    return std::move(sample_);
  }

 private:
  static constexpr uint32_t kCodes = kBits / 4;  // of a unit

  void CompareBlock(size_t at, size_t end) {
    thread_local std::vector<uint32_t> positions(kBlockElements + kScanSlack);
    const size_t bytes = (end - at) * sizeof(T);
    const size_t count =
        ScanChanged(before_.subspan(at * sizeof(T), bytes), after_.subspan(at * sizeof(T), bytes),
                    sizeof(T), static_cast<uint32_t>(at), positions.data());
    for (size_t i = 0; i < count; ++i) Compare(positions[i]);
    compared_ += end - at;
  }

  void Compare(size_t unit) {
    const T from = LoadLe<T>(before_.data() + unit * sizeof(T));
    const T to = LoadLe<T>(after_.data() + unit * sizeof(T));
    AddChange<kBits>(from, to, unit_rule_, &sample_.units);
    ++sample_.changed;
    if (!may_be_codes_) return;
    uint32_t changed_codes = 0;
    for (uint32_t i = 0; i < kCodes; ++i) {
      const auto old_code = static_cast<uint8_t>(from >> (4 * i) & 0x0F);
      const auto new_code = static_cast<uint8_t>(to >> (4 * i) & 0x0F);
      if (old_code == new_code) continue;
      AddChange<4>(old_code, new_code, code_rule_, &sample_.codes);
      ++changed_codes;
    }
    if (changed_codes == 1) ++sample_.single_code;
  }

  void CountKeys(size_t at, size_t end) {
    for (size_t i = at; i < end; ++i) {
      const T bits = LoadLe<T>(before_.data() + i * sizeof(T));
      ++sample_.units.counted_keys[KeyOf<kBits>(bits, unit_rule_)];
      if (!may_be_codes_) continue;
      for (uint32_t c = 0; c < kCodes; ++c) {
        const auto code = static_cast<uint8_t>(bits >> (4 * c) & 0x0F);
        ++sample_.codes.counted_keys[KeyOf<4>(code, code_rule_)];
      }
    }
    counted_ += end - at;
  }

  void SetElements(uint32_t per_unit, KeySample* sample) const {
    sample->elements = units_ * per_unit;
    sample->compared = compared_ * per_unit;
    sample->counted = counted_ * per_unit;
  }

  const ByteSpan before_;
  const ByteSpan after_;
  const size_t units_;
  const bool may_be_codes_;
  const KeyRule unit_rule_;
  const KeyRule code_rule_;
  uint64_t compared_ = 0;  // units
  uint64_t counted_ = 0;
  ChunkSample sample_;
};

}  // namespace

ChunkSample SampleChunk(tensor::Dtype dtype, ByteSpan before, ByteSpan after, size_t stride) {
  switch (tensor::UnitBytes(dtype)) {
    case 1:
      return Sampler<uint8_t>(dtype, before, after).Run(stride);
    case 2:
      return Sampler<uint16_t>(dtype, before, after).Run(stride);
    default:
      return Sampler<uint32_t>(dtype, before, after).Run(stride);
  }
}

Elements ChooseElements(tensor::Dtype dtype, uint64_t changed, uint64_t single_code) {
  if (dtype == tensor::Dtype::kF4) return Elements::kCodes4;
  if (!MayBeCodes(dtype) || changed == 0) return Elements::kUnits;
  return single_code * 10 >= changed * 9 ? Elements::kCodes4 : Elements::kUnits;
}

}  // namespace isthmus::codec
