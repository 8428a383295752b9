#include "isthmus/replica/planner.h"

#include <gtest/gtest.h>

#include <random>

namespace isthmus::replica {
namespace {

using board::kNoVersion;
using board::Manifest;
using board::Payload;
using board::PayloadKind;
using board::VersionNumber;

constexpr uint64_t kGigabyte = 1'000'000'000;

Payload Anchor(uint64_t bytes) {
  return {PayloadKind::kAnchor, kNoVersion, "", {{"k", bytes, {}, "f"}}};
}
Payload PatchFrom(VersionNumber base, uint64_t bytes) {
  return {PayloadKind::kPatch, base, "direct", {{"k", bytes, {}, ""}}};
}

Manifest At(VersionNumber version, std::vector<Payload> payloads) {
  Manifest manifest;
  manifest.version = version;
  manifest.parent = version - 1;
  manifest.payloads = std::move(payloads);
  return manifest;
}

// Anchor 1, patches 2 to 5.
std::vector<Manifest> FiveVersions() {
  return {At(1, {Anchor(10 * kGigabyte)}), At(2, {PatchFrom(1, kGigabyte)}),
          At(3, {PatchFrom(2, kGigabyte)}), At(4, {PatchFrom(3, kGigabyte)}),
          At(5, {PatchFrom(4, kGigabyte)})};
}

using Chain = std::vector<PlannedPayload>;

Chain ChainOf(const std::optional<Plan>& plan) { return plan ? plan->payloads : Chain{{99, 99}}; }

TEST(PlannerTest, PatchesLeadFromTheHeldVersionToTheTarget) {
  EXPECT_EQ(ChainOf(MakePlan(FiveVersions(), 2, 4)), (Chain{{3, 0}, {4, 0}}));
  EXPECT_FALSE(MakePlan(FiveVersions(), 2, 4)->from_anchor);
  EXPECT_EQ(MakePlan(FiveVersions(), 2, 4)->fetch_bytes, 2 * kGigabyte);
}

TEST(PlannerTest, NothingIsNeededToStay) {
  EXPECT_EQ(ChainOf(MakePlan(FiveVersions(), 3, 3)), Chain());
}

TEST(PlannerTest, FromNothingAnAnchorComesFirst) {
  EXPECT_EQ(ChainOf(MakePlan(FiveVersions(), kNoVersion, 3)), (Chain{{1, 0}, {2, 0}, {3, 0}}));
  EXPECT_TRUE(MakePlan(FiveVersions(), kNoVersion, 3)->from_anchor);
}

TEST(PlannerTest, GoingBackStartsAtAnAnchor) {
  EXPECT_EQ(ChainOf(MakePlan(FiveVersions(), 5, 2)), (Chain{{1, 0}, {2, 0}}));
}

TEST(PlannerTest, ASkipPatchIsTakenWhenItIsSmallerThanTheSteps) {
  std::vector<Manifest> run = FiveVersions();
  run[4].payloads.push_back(PatchFrom(2, 2 * kGigabyte));
  EXPECT_EQ(ChainOf(MakePlan(run, 2, 5)), (Chain{{5, 1}}));
  run[4].payloads.back().parts[0].bytes = 9 * kGigabyte;
  EXPECT_EQ(ChainOf(MakePlan(run, 2, 5)), (Chain{{3, 0}, {4, 0}, {5, 0}}));
}

TEST(PlannerTest, AnAnchorIsTakenWhenThePatchesAreLarger) {
  std::vector<Manifest> run = FiveVersions();
  run[3].payloads.push_back(Anchor(kGigabyte / 2));
  EXPECT_EQ(ChainOf(MakePlan(run, 1, 5)), (Chain{{4, 1}, {5, 0}}));
}

TEST(PlannerTest, AnEmptyVersionCostsNothing) {
  std::vector<Manifest> run = FiveVersions();
  run[2].payloads = {PatchFrom(2, 0)};
  EXPECT_EQ(ChainOf(MakePlan(run, 2, 3)), (Chain{{3, 0}}));
  EXPECT_EQ(MakePlan(run, 2, 3)->fetch_bytes, 0U);
}

TEST(PlannerTest, UnusablePayloadsAreAvoided) {
  std::vector<Manifest> run = FiveVersions();
  run[3].payloads.push_back(Anchor(20 * kGigabyte));
  EXPECT_EQ(ChainOf(MakePlan(run, 1, 4, {{3, 0}})), (Chain{{4, 1}}));
  EXPECT_FALSE(MakePlan(run, 1, 3, {{3, 0}}).has_value());
}

TEST(PlannerTest, WithoutAnAnchorThereIsNoPlanFromNothing) {
  std::vector<Manifest> run = FiveVersions();
  run.erase(run.begin());
  EXPECT_FALSE(MakePlan(run, kNoVersion, 3).has_value());
  EXPECT_EQ(ChainOf(MakePlan(run, 1, 3)), (Chain{{2, 0}, {3, 0}}));
}

// The cheapest price by trying every chain.
std::optional<uint64_t> BruteForce(const std::vector<Manifest>& run, VersionNumber at,
                                   VersionNumber target) {
  std::optional<uint64_t> best;
  if (at == target) return 0;
  for (const Manifest& manifest : run) {
    for (const Payload& payload : manifest.payloads) {
      const bool usable = payload.kind == PayloadKind::kPatch
                              ? payload.base == at && at != kNoVersion
                              : at == kNoVersion;
      if (!usable) continue;
      const auto rest = BruteForce(run, manifest.version, target);
      if (rest)
        best = std::min(best.value_or(UINT64_MAX), *rest + payload.bytes() + kPassPriceBytes);
    }
  }
  return best;
}

TEST(PlannerTest, NoOtherChainIsCheaper) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<Manifest> run;
    for (VersionNumber version = 1; version <= 6; ++version) {
      std::vector<Payload> payloads;
      if (random() % 3 == 0) payloads.push_back(Anchor(1 + random() % (8 * kGigabyte)));
      for (VersionNumber base = 1; base < version; ++base) {
        if (random() % 3 != 0) payloads.push_back(PatchFrom(base, 1 + random() % kGigabyte));
      }
      run.push_back(At(version, std::move(payloads)));
    }
    const VersionNumber held = random() % 7;
    const VersionNumber target = 1 + random() % 6;
    const auto plan = MakePlan(run, held, target);
    auto expected = BruteForce(run, held, target);
    const auto by_anchor = BruteForce(run, kNoVersion, target);
    if (by_anchor) expected = std::min(expected.value_or(UINT64_MAX), *by_anchor);
    ASSERT_EQ(plan.has_value(), expected.has_value());
    if (!plan) continue;
    ASSERT_EQ(plan->fetch_bytes + plan->payloads.size() * kPassPriceBytes, *expected);
  }
}

}  // namespace
}  // namespace isthmus::replica
