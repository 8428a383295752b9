#include "isthmus/codec/scan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/guarded_bytes.h"
#include "tests/support/simd.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::GuardedBytes;
using ::isthmus::testing::OnEveryTarget;

std::vector<uint32_t> Scan(ByteSpan before, ByteSpan after, size_t unit_bytes, uint32_t first) {
  std::vector<uint32_t> positions(before.size() / unit_bytes + kScanSlack);
  positions.resize(ScanChanged(before, after, unit_bytes, first, positions.data()));
  return positions;
}

std::vector<uint32_t> NaiveScan(ByteSpan before, ByteSpan after, size_t unit_bytes,
                                uint32_t first) {
  std::vector<uint32_t> positions;
  for (size_t i = 0; i < before.size() / unit_bytes; ++i) {
    const auto unit = [&](ByteSpan bytes) {
      return AsText(bytes.subspan(i * unit_bytes, unit_bytes));
    };
    if (unit(before) != unit(after)) positions.push_back(first + static_cast<uint32_t>(i));
  }
  return positions;
}

TEST(ScanTest, FindsWhatAPlainLoopFindsOnEveryTarget) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  OnEveryTarget([seed] {
    std::mt19937 random(seed);
    for (const size_t unit_bytes : {1, 2, 4}) {
      for (const size_t units : {0, 1, 3, 63, 64, 65, 257, 1000, 5000}) {
        for (const unsigned one_in : {1U, 2U, 100U, 100000U}) {
          ByteVector before(units * unit_bytes);
          for (std::byte& byte : before) byte = static_cast<std::byte>(random());
          ByteVector after = before;
          for (std::byte& byte : after) {
            if (random() % one_in == 0) byte ^= std::byte{1};
          }
          ASSERT_EQ(Scan(before, after, unit_bytes, 7), NaiveScan(before, after, unit_bytes, 7));
        }
      }
    }
  });
}

TEST(ScanTest, ReadsNoByteBeyondTheEnd) {
  constexpr size_t kPage = 4096;
  const GuardedBytes before(kPage, GuardedBytes::Guard::kBehind);
  const GuardedBytes after(kPage, GuardedBytes::Guard::kBehind);
  after.span()[kPage - 1] = std::byte{1};
  OnEveryTarget([&] {
    for (size_t bytes = 4; bytes <= kPage; bytes += 4) {
      const ByteSpan old_end = before.span().last(bytes);
      const ByteSpan new_end = after.span().last(bytes);
      for (const size_t unit_bytes : {1, 2, 4}) {
        const std::vector<uint32_t> found = Scan(old_end, new_end, unit_bytes, 0);
        ASSERT_EQ(found, std::vector<uint32_t>{static_cast<uint32_t>(bytes / unit_bytes - 1)});
      }
    }
  });
}

}  // namespace
}  // namespace isthmus::codec
