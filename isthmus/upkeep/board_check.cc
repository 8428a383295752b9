#include "isthmus/upkeep/board_check.h"

#include <fmt/format.h>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/base/random.h"
#include "isthmus/board/kept.h"
#include "isthmus/codec/part.h"
#include "isthmus/replica/fetch.h"
#include "isthmus/replica/replica.h"
#include "isthmus/upkeep/inventory.h"

namespace isthmus::upkeep {
namespace {

using board::Payload;
using board::VersionNumber;

// A directory of its own among the machine's temporary files; removed at the end.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / ("isthmus-verify-" + RandomId())) {
    CreateDirectories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Checker {
 public:
  Checker(const board::Board& board, const std::string& run, const CheckOptions& options,
          ThreadPool& pool, Progress& progress)
      : board_(board), run_(run), options_(options), pool_(pool), progress_(progress) {}

  CheckReport Run() {
    const Inventory inventory = TakeInventory(board_, run_, pool_, progress_);
    report_.problems = inventory.problems;
    CheckPayloads(inventory);
    for (const VersionNumber version : options_.rebuild) {
      NoteDamage(version, [&] { Rebuild(version); });
    }
    Note(inventory);
    return std::move(report_);
  }

 private:
  template <typename Action>
  void NoteDamage(VersionNumber version, const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      if (!MeansDamage(error)) throw;  // no room or permission: no finding
      report_.problems.push_back(fmt::format("version {}: {}", version, error.what()));
    }
  }

  void CheckPayloads(const Inventory& inventory) {
    const board::Kept kept = board::ReadKept(board_, run_);
    const ProgressScope scope(progress_, "versions", inventory.manifests.size());
    for (const auto& [version, manifest] : inventory.manifests) {
      progress_.Advance(1);
      if (!kept.MayHave(version)) {
        ++cleaned_;
        continue;
      }
      for (const Payload& payload : manifest.payloads) CheckPayload(version, payload);
    }
    for (const auto& [extra, payload] : inventory.extras) CheckPayload(extra.version, payload);
  }

  void CheckPayload(VersionNumber version, const Payload& payload) {
    for (const board::PayloadPart& part : payload.parts) {
      NoteDamage(version, [&] { CheckPart(part, payload.kind == board::PayloadKind::kPatch); });
    }
  }

  void CheckPart(const board::PayloadPart& part, bool is_patch) {
    const auto size = board_.store().Size(part.key);
    if (!size) Throw(ErrorCode::kNotFound, "{}: missing", part.key);
    if (*size != part.bytes) {
      Throw(ErrorCode::kCorrupt, "{}: {} bytes, expected {}", part.key, *size, part.bytes);
    }
    if (!options_.deep) return;
    const fs::path file = scratch_.path() / "part";
    replica::FetchPart(board_.store(), part, file, NoProgress());
    if (!is_patch) return;
    const MappedFile map(file, Access::kRead);
    codec::Part::Open(map.bytes());
  }

  void Rebuild(VersionNumber version) {
    const fs::path directory = scratch_.path() / "rebuilt";
    {
      replica::Replica replica(directory, pool_, progress_);
      replica.Pull(board_, run_, version);
    }
    fs::remove_all(directory);
  }

  void Note(const Inventory& inventory) {
    for (const auto& [attempt, keys] : inventory.leftovers) {
      report_.notes.push_back(
          fmt::format("{}: {} objects that nothing names", attempt, keys.size()));
    }
    if (!inventory.forks_problem.empty()) {
      report_.notes.push_back(
          fmt::format("what other runs begin with is not known: {}", inventory.forks_problem));
    }
    for (const std::string& key : inventory.unexplained) {
      report_.notes.push_back(fmt::format("{}: no object of a board", key));
    }
    if (cleaned_ > 0) {
      report_.notes.push_back(
          fmt::format("{} versions were cleaned: their payloads are gone", cleaned_));
    }
  }

  const board::Board& board_;
  const std::string& run_;
  const CheckOptions& options_;
  ThreadPool& pool_;
  Progress& progress_;
  const Scratch scratch_;
  CheckReport report_;
  size_t cleaned_ = 0;
};

}  // namespace

CheckReport CheckBoard(const board::Board& board, const std::string& run,
                       const CheckOptions& options, ThreadPool& pool, Progress& progress) {
  return Checker(board, run, options, pool, progress).Run();
}

}  // namespace isthmus::upkeep
