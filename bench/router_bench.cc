// How long a gateway takes to choose one of 1,000 islands. No arguments; CSV on standard output.
#include <fmt/format.h>

#include <cstdint>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "bench/measure.h"
#include "isthmus/gateway/router.h"

namespace isthmus::bench {
namespace {

using gateway::Ask;
using gateway::IslandState;
using gateway::IslandView;
using gateway::Snapshot;

constexpr size_t kIslands = 1000;
constexpr size_t kDecisions = 10'000;  // a round
constexpr size_t kRounds = 21;
constexpr gateway::VersionNumber kNewest = 42;

// A fleet in the middle of a switch: half at the newest version, some staging it, in slow start,
// committing or suspect.
Snapshot Fleet() {
  std::mt19937_64 random(20260101);
  Snapshot snapshot;
  snapshot.runs.push_back({"bench", kNewest});
  for (size_t i = 0; i < kIslands; ++i) {
    IslandView island;
    island.run = 0;
    island.placement = gateway::PlacementOf(fmt::format("island-{}", i));
    island.served = random() % 2 == 0 ? kNewest : kNewest - 1;
    if (island.served != kNewest && random() % 4 == 0) island.target = kNewest;
    island.in_flight = static_cast<uint32_t>(random() % 64);
    island.limit = 256;
    island.share = random() % 16 == 0 ? 0.5F : 1.0F;
    island.state =
        island.target != gateway::kNoVersion ? IslandState::kStaging : IslandState::kReady;
    if (random() % 20 == 0) island.state = IslandState::kCommitting;
    if (random() % 50 == 0) island.state = IslandState::kSuspect;
    snapshot.islands.push_back(island);
  }
  return snapshot;
}

struct Case {
  std::string name;
  lane::Constraint constraint;
  bool session = false;
  bool may_wait = false;
};

std::vector<Case> Cases() {
  lane::Constraint newest, few, none;
  newest.min_version = kNewest;
  few.exact_version = kNewest - 5;
  none.min_version = kNewest + 1;
  return {{"any version", {}},
          {"any version; with a session", {}, true},
          {"half satisfy", newest},
          {"half satisfy; with a session", newest, true},
          {"ten satisfy", few},
          {"ten satisfy; with a session", few, true},
          {"none satisfies", none, true, true}};
}

// Of this thread: a decision waits for nothing, and other programs' turns are not its own.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Microseconds a decision; the median of the rounds.
double Measure(const Case& test_case, const Snapshot& snapshot) {
  std::vector<std::string> sessions;
  for (size_t i = 0; i < 1024; ++i) sessions.push_back(fmt::format("session-{}", i));
  std::mt19937_64 random(7);
  Ask ask;
  ask.constraint = &test_case.constraint;
  ask.may_wait = test_case.may_wait;
  std::vector<double> rounds;
  for (size_t round = 0; round < kRounds; ++round) {
    const double begin = CpuSeconds();
    for (size_t i = 0; i < kDecisions; ++i) {
      if (test_case.session) ask.session = sessions[i % sessions.size()];
      const gateway::Choice choice = ChooseIsland(ask, snapshot, random());
      Consume(choice.island + static_cast<uint64_t>(choice.verdict));
    }
    rounds.push_back((CpuSeconds() - begin) / kDecisions * 1e6);
  }
  return Median(rounds);
}

}  // namespace
}  // namespace isthmus::bench

int main() {
  using namespace isthmus::bench;
  Snapshot snapshot = Fleet();
  for (size_t i = 0; i < 10; ++i) snapshot.islands[i * 97].served = kNewest - 5;
  PrintHeader();
  for (const Case& test_case : Cases()) {
    PrintRow("router", fmt::format("{} islands; {}", kIslands, test_case.name), "a decision",
             Measure(test_case, snapshot), "us", Target::AtMost(5));
  }
}
