#include "isthmus/base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace isthmus {
namespace {

using ::testing::MatchesRegex;

// Gives the same byte for ever.
class ConstantSource final : public RandomSource {
 public:
  explicit ConstantSource(std::byte value) : value_(value) {}
  void Fill(MutableByteSpan out) override { std::ranges::fill(out, value_); }

 private:
  std::byte value_;
};

TEST(RandomTest, IdsAre16HexDigitsAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RandomId());
  EXPECT_EQ(ids.size(), 1000u);
  for (const std::string& id : ids) EXPECT_THAT(id, MatchesRegex("[0-9a-f]{16}"));
}

TEST(RandomTest, UuidsHaveVersion4AndDiffer) {
  std::set<std::string> uuids;
  for (int i = 0; i < 1000; ++i) uuids.insert(RandomUuid());
  EXPECT_EQ(uuids.size(), 1000u);
  for (const std::string& uuid : uuids) {
    EXPECT_THAT(uuid, MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-"
                                   "[0-9a-f]{12}"));
  }
}

TEST(RandomTest, TheSourceDecidesWhatIsDrawn) {
  ConstantSource ones(std::byte{0xFF});
  EXPECT_EQ(RandomId(ones), "ffffffffffffffff");
  EXPECT_EQ(RandomUuid(ones), "ffffffff-ffff-4fff-bfff-ffffffffffff");
  ConstantSource zeros(std::byte{0});
  EXPECT_EQ(RandomId(zeros), "0000000000000000");
  EXPECT_EQ(RandomUuid(zeros), "00000000-0000-4000-8000-000000000000");
}

TEST(RandomTest, TheKernelFillsBuffersOfEverySize) {
  // getrandom may return less than asked above 256 bytes.
  ByteVector bytes(1 << 20);
  SystemRandom().Fill(bytes);
  const ByteSpan tail = ByteSpan(bytes).last(64);
  EXPECT_TRUE(std::ranges::any_of(tail, [](std::byte b) { return b != std::byte{0}; }));
  SystemRandom().Fill({});
}

}  // namespace
}  // namespace isthmus
