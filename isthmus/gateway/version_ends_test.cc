#include "isthmus/gateway/version_ends.h"

#include <gtest/gtest.h>

namespace isthmus::gateway {
namespace {

constexpr std::string_view kEvents =
    "data: {\"a\":\"\\\"weight_version_end\\\":7\",\"weight_version_end\":12}\n\n"
    "data: {\"weight_version_end\":345,\"b\":1}\n\n"
    "data: [DONE]\n\n";

TEST(VersionEndsTest, TheLastOneCounts) {
  EXPECT_EQ(VersionEnds().Feed(kEvents), 345U);
  EXPECT_EQ(VersionEnds().Feed("data: [DONE]\n\n"), board::kNoVersion);
  EXPECT_EQ(VersionEnds().Feed(""), board::kNoVersion);
}

TEST(VersionEndsTest, PiecesMayBeCutAnywhere) {
  for (size_t size = 1; size <= kEvents.size(); ++size) {
    for (size_t begin = 0; begin < size; ++begin) {
      VersionEnds ends;
      board::VersionNumber last = board::kNoVersion;
      for (size_t at = 0; at < kEvents.size();) {
        const size_t bytes = at == 0 && begin > 0 ? begin : size;
        const board::VersionNumber found = ends.Feed(kEvents.substr(at, bytes));
        if (found != board::kNoVersion) last = found;
        if (found != board::kNoVersion) {
          EXPECT_TRUE(found == 12 || found == 345) << found;
        }
        at += bytes;
      }
      EXPECT_EQ(last, 345U) << size << " " << begin;
    }
  }
}

}  // namespace
}  // namespace isthmus::gateway
