// A run on a board, forks of it, and cleaning beside them.
#ifndef ISTHMUS_TESTS_INTEGRATION_FORK_JOB_H_
#define ISTHMUS_TESTS_INTEGRATION_FORK_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "isthmus/upkeep/anchor.h"
#include "isthmus/upkeep/board_check.h"
#include "isthmus/upkeep/cleaning.h"
#include "isthmus/upkeep/fork.h"
#include "tests/integration/main_job.h"
#include "tests/support/hooked_store.h"

namespace isthmus::testing {

class ForkJob : public MainJob {
 protected:
  fs::path Source(int source) const { return dir_ / ("source-" + std::to_string(source)); }

  upkeep::ForkResult Fork(const board::ForkPoint& from, const std::string& run,
                          const fs::path& checkpoint = "") {
    board::Board board = OpenBoard();
    return ForkOn(board, from, run, checkpoint);
  }
  upkeep::ForkResult ForkOn(board::Board& board, const board::ForkPoint& from,
                            const std::string& run, const fs::path& checkpoint) {
    const upkeep::ForkRequest request = {from, run, checkpoint};
    return upkeep::Fork(board, request, pool_, NoProgress());
  }
  // As Fork, from a board whose store runs `hook` once after `key` was written or removed.
  upkeep::ForkResult ForkWithHook(const board::ForkPoint& from, const std::string& run,
                                  const std::string& key, std::function<void()> hook) {
    board::Board board = OpenHooked(key, std::move(hook));
    return ForkOn(board, from, run, "");
  }
  board::Board OpenHooked(const std::string& key, std::function<void()> hook) const {
    return board::Board::Open(std::make_unique<HookedStore>(
        store::OpenStore((dir_ / "board").string()), key, std::move(hook)));
  }

  void Anchor(board::VersionNumber version, int source) {
    board::Board board = OpenBoard();
    upkeep::AddAnchor(board, "run", version, Source(source), pool_, NoProgress());
  }

  // Keeps the newest version alone; everything is old enough to go, pins of an hour still hold.
  upkeep::CleaningReport Clean(board::Board board, const std::string& run = "run") {
    upkeep::CleaningPolicy policy;
    policy.retention = {1, 0, std::chrono::seconds(0)};
    policy.grace = std::chrono::seconds(0);
    policy.apply = true;
    const WallTime now = SystemClock().Now() + std::chrono::minutes(30);
    return upkeep::Clean(board, run, policy, now, pool_, NoProgress());
  }
  upkeep::CleaningReport Clean(const std::string& run = "run") { return Clean(OpenBoard(), run); }

  upkeep::CheckReport Check(const std::string& run, upkeep::CheckOptions options = {true, {}}) {
    return upkeep::CheckBoard(OpenBoard(), run, options, pool_, NoProgress());
  }
  board::Manifest Read(const std::string& run, board::VersionNumber version = 1) {
    return *OpenBoard().Read(run, version);
  }
  // What no program of ours would store.
  void Put(const std::string& key, const std::string& text) {
    OpenBoard().store().Put(key, AsBytes(text));
  }
  std::vector<std::string> Objects(const std::string& prefix = "") {
    return OpenBoard().store().List(prefix);
  }
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_INTEGRATION_FORK_JOB_H_
