#include "isthmus/sidecar/board_view.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::sidecar {
namespace {

constexpr MonotonicTime At(int64_t ms) { return MonotonicTime(std::chrono::milliseconds(ms)); }
constexpr std::chrono::milliseconds Ms(int64_t ms) { return std::chrono::milliseconds(ms); }

TEST(BoardViewTest, BeforeTheLogWasReadNoLagIsKnown) {
  const BoardView view;
  EXPECT_EQ(view.newest(), board::kNoVersion);
  EXPECT_EQ(view.Lag(41), BoardView::kUnknownLag);
  EXPECT_EQ(view.TimeLag(41, At(1)), BoardView::kUnknownTimeLag);
}

TEST(BoardViewTest, ALagInTimeCountsFromTheLastReadingThatEndedThereOrBefore) {
  BoardView view;
  view.Learn(41, At(10));
  view.Learn(41, At(20));
  view.Learn(44, At(30));
  EXPECT_EQ(view.TimeLag(40, At(100)), BoardView::kUnknownTimeLag);
  EXPECT_EQ(view.TimeLag(41, At(100)), Ms(80));
  EXPECT_EQ(view.TimeLag(43, At(100)), Ms(80));
  EXPECT_EQ(view.TimeLag(44, At(100)), Ms(70));
  EXPECT_EQ(view.TimeLag(45, At(100)), Ms(70));  // the reading is older than the version
  view.ForgetBefore(44);
  EXPECT_EQ(view.TimeLag(43, At(100)), BoardView::kUnknownTimeLag);
  EXPECT_EQ(view.TimeLag(44, At(100)), Ms(70));
}

TEST(BoardViewTest, RevokedVersionsAreNotTheNewest) {
  BoardView view;
  view.Learn(42, At(10));
  view.Learn(44, At(20));
  view.Revoke(43);
  EXPECT_EQ(view.newest(), 44U);
  view.Revoke(44);
  EXPECT_EQ(view.newest(), 42U);
  EXPECT_EQ(view.Lag(42), 0U);
  EXPECT_EQ(view.TimeLag(42, At(100)), Ms(80));
  view.Revoke(46);
  view.Learn(46, At(30));
  EXPECT_EQ(view.newest(), 45U);
}

TEST(BoardViewTest, WithMoreReadingsThanAreKeptLagsInTimeAreOverstated) {
  BoardView view;
  const auto count = static_cast<int64_t>(BoardView::kMaxConfirmed);
  for (int64_t i = 1; i <= count + 1; ++i) {
    view.Learn(static_cast<board::VersionNumber>(i), At(i));
  }
  EXPECT_EQ(view.TimeLag(1, At(count + 1)), Ms(count));
  EXPECT_EQ(view.TimeLag(2, At(count + 1)), Ms(count));
  EXPECT_EQ(view.TimeLag(3, At(count + 1)), Ms(count - 2));
}

TEST(BoardViewTest, RevokedVersionsAreBounded) {
  BoardView view;
  for (size_t i = 1; i <= BoardView::kMaxRevoked; ++i) view.Revoke(i);
  view.Revoke(1);
  testing::ExpectError(
      ErrorCode::kUnavailable, [&] { view.Revoke(BoardView::kMaxRevoked + 1); },
      "revoke version 10001");
  EXPECT_FALSE(view.revoked(BoardView::kMaxRevoked + 1));
}

}  // namespace
}  // namespace isthmus::sidecar
