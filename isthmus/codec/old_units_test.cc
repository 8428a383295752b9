#include "isthmus/codec/old_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "isthmus/codec/layout.h"
#include "isthmus/codec/sparse.h"
#include "isthmus/tensor/position_sum.h"
#include "tests/support/old_units.h"

namespace isthmus::codec {
namespace {

using ::isthmus::testing::CountChanged;
using ::isthmus::testing::TakeBack;

class OldUnitsTest : public ::testing::Test {
 protected:
  OldUnitsTest()
      : seed_(std::random_device()()), trace_(__FILE__, __LINE__, seed_), random_(seed_) {}

  void Draw(size_t units, size_t unit_bytes, unsigned one_in) {
    before_.resize(units * unit_bytes);
    for (std::byte& byte : before_) byte = static_cast<std::byte>(random_());
    after_ = before_;
    for (std::byte& byte : after_) {
      if (random_() % one_in == 0) byte ^= std::byte{1};
    }
  }

  // Puts the units of each block into any order, as a sparse payload may.
  void ShuffleBlocks(OldUnits* old) {
    OldUnit* begin = old->room();
    OldUnit* const end = begin + old->list().size();
    while (begin != end) {
      const auto block_end = std::find_if(begin, end, [begin](const OldUnit& unit) {
        return unit.position / kBlockElements != begin->position / kBlockElements;
      });
      std::shuffle(begin, block_end, random_);
      begin = block_end;
    }
  }

  unsigned seed_;
  ::testing::ScopedTrace trace_;
  std::mt19937 random_;
  ByteVector before_;
  ByteVector after_;
};

TEST_F(OldUnitsTest, CompareListsWhatDiffersAndWhatItWas) {
  OldUnits old;
  for (const size_t unit_bytes : {1, 2, 4}) {
    for (const unsigned one_in : {1U, 5U, 1000U, 1'000'000'000U}) {
      Draw(9000, unit_bytes, one_in);
      old.Compare(before_, after_, unit_bytes);
      EXPECT_EQ(TakeBack(after_, old, unit_bytes), before_);
      EXPECT_EQ(old.list().size(), CountChanged(before_, after_, unit_bytes));
      EXPECT_TRUE(std::ranges::is_sorted(old.list(), {}, &OldUnit::position));
    }
  }
}

TEST_F(OldUnitsTest, HasRoomForAFullChunk) {
  Draw(kChunkUnits, 1, 1);
  OldUnits old;
  old.Compare(before_, after_, 1);
  EXPECT_EQ(old.list().size(), kChunkUnits);
}

TEST_F(OldUnitsTest, SortingBlocksSortsTheList) {
  Draw(50'000, 2, 10);
  OldUnits old;
  old.Compare(before_, after_, 2);
  const std::vector<OldUnit> sorted(old.list().begin(), old.list().end());
  ShuffleBlocks(&old);
  EXPECT_FALSE(std::ranges::equal(old.list(), sorted));
  old.Sort();
  EXPECT_TRUE(std::ranges::equal(old.list(), sorted));
}

TEST_F(OldUnitsTest, PiecesAreFoundInSortedListsAndAtBlocksInOthers) {
  Draw(50'000, 2, 10);
  OldUnits old;
  old.Compare(before_, after_, 2);
  const auto expect_piece = [&](uint64_t first, uint64_t units) {
    const auto inside = [&](const OldUnit& unit) {
      return unit.position >= first && unit.position < first + units;
    };
    EXPECT_EQ(old.Within(first, units).size(), std::ranges::count_if(old.list(), inside));
    EXPECT_TRUE(std::ranges::all_of(old.Within(first, units), inside));
  };
  for (int i = 0; i < 100; ++i) expect_piece(random_() % 40'000, random_() % 10'000);
  ShuffleBlocks(&old);
  expect_piece(0, 50'000);
  expect_piece(kBlockElements, 3 * kBlockElements);
  expect_piece(8 * kBlockElements, 50'000 - 8 * kBlockElements);
}

TEST_F(OldUnitsTest, SumChangeIsTheDifferenceOfTheSums) {
  OldUnits old;
  for (const size_t unit_bytes : {1, 2, 4}) {
    Draw(20'000, unit_bytes, 20);
    old.Compare(before_, after_, unit_bytes);
    ShuffleBlocks(&old);
    EXPECT_EQ(
        SumChange(old.list(), after_, unit_bytes, 77),
        tensor::PositionSum(after_, unit_bytes, 77) - tensor::PositionSum(before_, unit_bytes, 77));
  }
}

}  // namespace
}  // namespace isthmus::codec
