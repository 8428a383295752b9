// Cleaning, step by step; the reason is what a crash behind the step leaves.
//   1. Look through the run; plan; prove. (Nothing.)
//   2. Write kept.json: readers no longer plan with what will go. (Payloads that nobody uses, which
//      the next cleaning removes.)
//   3. Remove the entries of added payloads. (Objects that nothing names: leftovers.)
//   4. Look for forks once more. Now that 2 and 3 say what goes, one that comes later sees it
//      (fork.cc), and what one that came meanwhile names is spared.
//   5. Remove the objects of payloads that no kept payload names too, then leftovers that are old
//      enough, then pins that have expired. (Fewer of them.)
//   6. Prove again.
// Objects of another run, which a fork begins with, are that run's to remove.
// Log entries stay for ever: a log has no gaps.
#include "isthmus/upkeep/cleaning.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/board/kept.h"
#include "isthmus/board/keys.h"
#include "isthmus/publish/stored_part.h"
#include "isthmus/upkeep/forked_objects.h"
#include "isthmus/upkeep/leftovers.h"

namespace isthmus::upkeep {
namespace {

using board::Board;
using board::Manifest;
using board::Payload;
using board::VersionNumber;
using replica::PlannedPayload;

const Manifest& ManifestOf(const std::vector<Manifest>& manifests, VersionNumber version) {
  return *std::ranges::lower_bound(manifests, version, {}, &Manifest::version);
}

const Payload& PayloadAt(const std::vector<Manifest>& manifests, const PlannedPayload& place) {
  return ManifestOf(manifests, place.version).payloads[place.index];
}

class Cleaner {
 public:
  Cleaner(Board& board, const std::string& run, const CleaningPolicy& policy, WallTime now,
          ThreadPool& pool, Progress& progress)
      : board_(board), run_(run), policy_(policy), now_(now), pool_(pool), progress_(progress) {}

  CleaningReport Run() {
    inventory_ = TakeInventory(board_, run_, pool_, progress_);
    RefuseDamage();
    manifests_ = inventory_.WithExtras();
    WithoutGone();
    retention_ =
        PlanRetention(manifests_, {inventory_.pins, inventory_.forked}, policy_.retention, now_);
    RefuseUnreachable();
    Prove();
    Count();
    if (policy_.apply) {
      Remove();
      Prove();
    }
    return std::move(report_);
  }

 private:
  void RefuseDamage() const {
    if (!inventory_.forks_problem.empty()) {
      Throw(ErrorCode::kCorrupt, "clean run {} in {}: what other runs begin with is not known: {}",
            run_, board_.store().Describe(), inventory_.forks_problem);
    }
    if (inventory_.problems.empty()) return;
    Throw(ErrorCode::kCorrupt, "clean run {} in {}: {} problems, the first: {}", run_,
          board_.store().Describe(), inventory_.problems.size(), inventory_.problems.front());
  }

  // What an earlier cleaning let go is no way to a version. If it was killed before it removed all
  // of it, this one does the rest.
  void WithoutGone() {
    const board::Kept kept = board::ReadKept(board_, run_);
    for (Manifest& manifest : manifests_) {
      if (kept.MayHave(manifest.version)) continue;
      const std::vector<board::Payload>& own = inventory_.manifests.at(manifest.version).payloads;
      for (const board::Payload& payload : own) {
        for (const board::PayloadPart& part : payload.parts) {
          if (inventory_.objects.contains(part.key)) doomed_.emplace(part.key, part.bytes);
        }
      }
      manifest.payloads.erase(manifest.payloads.begin(),
                              manifest.payloads.begin() + static_cast<ptrdiff_t>(own.size()));
      gone_.insert(manifest.version);
    }
  }

  void RefuseUnreachable() const {
    for (const VersionNumber version : retention_.unreachable) {
      // What an earlier cleaning let go cannot be asked back by a later policy.
      if (gone_.contains(version)) continue;
      Throw(ErrorCode::kCorrupt,
            "clean run {} in {}: version {} should stay, and no chain leads to it", run_,
            board_.store().Describe(), version);
    }
  }

  // Every part that stays is there.
  void Prove() const {
    const ProgressScope scope(progress_, "prove", retention_.keep.size());
    const std::vector<PlannedPayload> places(retention_.keep.begin(), retention_.keep.end());
    pool_.ParallelFor(places.size(), [&](size_t i) {
      for (const board::PayloadPart& part : PayloadAt(manifests_, places[i]).parts) {
        const std::string wrong = publish::WrongSizeOf(board_.store(), part);
        if (wrong.empty()) continue;
        Throw(ErrorCode::kCorrupt, "clean run {} in {}: version {} needs {}, which {}", run_,
              board_.store().Describe(), places[i].version, part.key, wrong);
      }
      progress_.Advance(1);
    });
  }

  void Count() {
    for (const auto& [version, plan] : retention_.kept) report_.kept.push_back(version);
    for (const PlannedPayload& place : retention_.keep) {
      for (const auto& part : PayloadAt(manifests_, place).parts) needed_.insert(part.key);
    }
    for (const PlannedPayload& place : retention_.remove) {
      ++report_.payloads_removed;
      for (const auto& part : PayloadAt(manifests_, place).parts) {
        const bool own = part.key.starts_with(board::DataPrefix(run_));
        if (own) doomed_.emplace(part.key, part.bytes);
      }
    }
    std::erase_if(doomed_, [this](const auto& object) {
      return needed_.contains(object.first) || inventory_.forked.contains(object.first);
    });
    CountDoomed();
    report_.unexplained = inventory_.unexplained;
    for (const auto& [attempt, keys] : inventory_.leftovers) report_.leftovers += keys.size();
    const SeenLeftovers before = ReadLeftovers(board_, run_);
    for (const auto& [attempt, keys] : inventory_.leftovers) {
      const auto at = before.find(attempt);
      const WallTime since = at == before.end() ? now_ : at->second;
      if (now_ - since >= policy_.grace) {
        report_.leftovers_removed += keys.size();
      } else {
        waiting_.emplace(attempt, since);
      }
    }
    for (const board::Pin& pin : inventory_.pins) {
      if (pin.expires_at <= now_) report_.pins_removed.push_back(pin.name);
    }
  }

  void CountDoomed() {
    report_.objects_removed = doomed_.size();
    report_.bytes_removed = 0;
    for (const auto& [key, bytes] : doomed_) report_.bytes_removed += bytes;
  }

  void SpareForked() {
    for (const std::string& key : ForkedObjects(board_, run_, pool_)) doomed_.erase(key);
    CountDoomed();
  }

  void Remove() {
    board::WriteKept(board_, run_, KeptNow());
    for (const auto& [extra, payload] : inventory_.extras) {
      if (IsRemoved(extra)) board_.store().Delete(ExtraKey(run_, extra));
    }
    SpareForked();
    {
      std::vector<std::string> keys;
      keys.reserve(doomed_.size());
      for (const auto& [key, bytes] : doomed_) keys.push_back(key);
      for (const auto& [attempt, left] : inventory_.leftovers) {
        if (!waiting_.contains(attempt)) keys.insert(keys.end(), left.begin(), left.end());
      }
      const ProgressScope scope(progress_, "remove", keys.size());
      pool_.ParallelFor(keys.size(), [&](size_t i) {
        board_.store().Delete(keys[i]);
        progress_.Advance(1);
      });
    }
    WriteLeftovers(board_, run_, waiting_);
    if (!report_.pins_removed.empty()) RemoveExpiredPins();
  }

  // Looked at again: their readers may have renewed them meanwhile.
  void RemoveExpiredPins() {
    for (const board::Pin& pin : board::ListPins(board_, run_)) {
      const bool reported =
          std::ranges::find(report_.pins_removed, pin.name) != report_.pins_removed.end();
      if (reported && pin.expires_at <= now_) board::RemovePin(board_, run_, pin.name);
    }
  }

  bool IsRemoved(const board::Extra& extra) const {
    const auto& payloads = ManifestOf(manifests_, extra.version).payloads;
    for (size_t i = 0; i < payloads.size(); ++i) {
      const bool is_it = i >= OwnCount(extra.version) && payloads[i].kind == extra.kind &&
                         payloads[i].base == extra.base;
      if (is_it) return retention_.remove.contains({extra.version, i});
    }
    return false;
  }

  // Payloads that come first, of the log entry itself.
  size_t OwnCount(VersionNumber version) const {
    return gone_.contains(version) ? 0 : inventory_.manifests.at(version).payloads.size();
  }

  board::Kept KeptNow() const {
    board::Kept kept;
    kept.through = inventory_.head;
    for (const Manifest& manifest : manifests_) {
      bool stays = manifest.payloads.empty() && !gone_.contains(manifest.version);
      for (size_t i = 0; i < OwnCount(manifest.version); ++i) {
        stays = stays || retention_.keep.contains({manifest.version, i});
      }
      if (stays) kept.versions.push_back(manifest.version);
    }
    return kept;
  }

  Board& board_;
  const std::string& run_;
  const CleaningPolicy& policy_;
  WallTime now_;
  ThreadPool& pool_;
  Progress& progress_;
  Inventory inventory_;
  std::vector<Manifest> manifests_;
  std::set<VersionNumber> gone_;
  Retention retention_;
  std::set<std::string> needed_;            // keys of payloads that stay
  std::map<std::string, uint64_t> doomed_;  // of payloads that go: keys, and their bytes
  SeenLeftovers waiting_;
  CleaningReport report_;
};

}  // namespace

CleaningReport Clean(Board& board, const std::string& run, const CleaningPolicy& policy,
                     WallTime now, ThreadPool& pool, Progress& progress) {
  return Cleaner(board, run, policy, now, pool, progress).Run();
}

}  // namespace isthmus::upkeep
