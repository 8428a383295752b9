#include "isthmus/upkeep/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "isthmus/base/error.h"
#include "isthmus/board/keys.h"
#include "isthmus/upkeep/forked_objects.h"

namespace isthmus::upkeep {
namespace {

using board::Board;
using board::Extra;
using board::Manifest;
using board::Payload;
using board::VersionNumber;

// Runs `read`; what it says of damage, empty for none.
template <typename Read>
std::string DamageOf(const Read& read) {
  try {
    read();
    return {};
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return error.what();
  }
}

// "runs/r/data/8/0f/" of "runs/r/data/8/0f/x": nullopt if a segment is missing.
std::optional<std::string> AttemptOf(const std::string& run, const std::string& key) {
  size_t end = board::DataPrefix(run).size();
  for (int segment = 0; segment < 2; ++segment) {
    end = key.find('/', end);
    if (end == std::string::npos) return std::nullopt;
    ++end;
  }
  return key.substr(0, end);
}

// Of the forms that have a number or a name and nothing behind it.
bool IsKnown(const std::string& run, const std::string& key) {
  if (key == board::RunKey(run) || key == board::HintKey(run) || key == board::KeptKey(run) ||
      key == board::LeftoversKey(run) || key == board::CallKey(run)) {
    return true;
  }
  const std::string pins = board::PinPrefix(run);
  return board::NumberIn(key, board::LogPrefix(run), board::kVersionDigits) ||
         board::NumberIn(key, board::WritersPrefix(run), board::kEpochDigits) ||
         board::NumberIn(key, board::RevokedPrefix(run), board::kVersionDigits) ||
         board::ExtraOf(run, key) ||
         (key.starts_with(pins) && key.ends_with(".json") &&
          key.find('/', pins.size()) == std::string::npos);
}

// Many requests at once: a store over a network answers each in its own time.
void ReadLog(const Board& board, const std::string& run, ThreadPool& pool, Progress& progress,
             Inventory* inventory) {
  const ProgressScope scope(progress, "read the log", inventory->head);
  std::vector<std::optional<Manifest>> read(inventory->head);
  std::vector<std::string> problems(inventory->head);
  pool.ParallelFor(read.size(), [&](size_t i) {
    problems[i] = DamageOf([&] {
      read[i] = board.Read(run, i + 1);
      if (!read[i]) Throw(ErrorCode::kCorrupt, "version {}: no log entry", i + 1);
    });
    progress.Advance(1);
  });
  for (size_t i = 0; i < read.size(); ++i) {
    if (read[i]) inventory->manifests.emplace(i + 1, std::move(*read[i]));
    if (!problems[i].empty()) inventory->problems.push_back(std::move(problems[i]));
  }
}

void ReadExtras(const Board& board, const std::string& run, const std::vector<Extra>& extras,
                ThreadPool& pool, Inventory* inventory) {
  std::vector<std::optional<Payload>> read(extras.size());
  std::vector<std::string> problems(extras.size());
  pool.ParallelFor(extras.size(), [&](size_t i) {
    problems[i] = DamageOf([&] {
      const auto manifest = inventory->manifests.find(extras[i].version);
      if (manifest == inventory->manifests.end()) {
        Throw(ErrorCode::kCorrupt, "{}: version {} has no log entry", ExtraKey(run, extras[i]),
              extras[i].version);
      }
      read[i] = board::ReadExtra(board, run, extras[i], manifest->second.digest);
    });
  });
  for (size_t i = 0; i < extras.size(); ++i) {
    if (read[i]) inventory->extras.emplace(extras[i], std::move(*read[i]));
    if (!problems[i].empty()) inventory->problems.push_back(std::move(problems[i]));
  }
}

void ReadForks(const Board& board, const std::string& run, ThreadPool& pool, Inventory* inventory) {
  try {
    inventory->forked = ForkedObjects(board, run, pool);
  } catch (const Error& error) {
    // A newer format, which is invalid, hides what a fork needs as damage does.
    if (!MeansDamage(error) && error.code() != ErrorCode::kInvalid) throw;
    inventory->forks_problem = error.what();
  }
}

std::set<std::string> NamedKeys(const Inventory& inventory) {
  std::set<std::string> named = inventory.forked;
  const auto add = [&named](const Payload& payload) {
    for (const board::PayloadPart& part : payload.parts) named.insert(part.key);
  };
  for (const auto& [version, manifest] : inventory.manifests) {
    std::ranges::for_each(manifest.payloads, add);
  }
  for (const auto& [extra, payload] : inventory.extras) add(payload);
  return named;
}

}  // namespace

std::vector<Manifest> Inventory::WithExtras() const {
  std::vector<Manifest> all;
  all.reserve(manifests.size());
  for (const auto& [version, manifest] : manifests) all.push_back(manifest);
  for (const auto& [extra, payload] : extras) {
    std::ranges::lower_bound(all, extra.version, {}, &Manifest::version)
        ->payloads.push_back(payload);
  }
  return all;
}

Inventory TakeInventory(const Board& board, const std::string& run, ThreadPool& pool,
                        Progress& progress) {
  Inventory inventory;
  // Before anything that names objects is read: an object that is stored and named later is no
  // leftover of this list.
  const std::vector<std::string> keys = board.store().List(board::RunPrefix(run));
  inventory.head = board.Head(run);
  if (inventory.head == board::kNoVersion) {
    Throw(ErrorCode::kNotFound, "look through run {} in {}: no such run", run,
          board.store().Describe());
  }
  ReadLog(board, run, pool, progress, &inventory);
  ReadExtras(board, run, board::ListExtras(board, run), pool, &inventory);
  std::string problem = DamageOf([&] { inventory.pins = board::ListPins(board, run); });
  if (!problem.empty()) inventory.problems.push_back(std::move(problem));
  ReadForks(board, run, pool, &inventory);
  const std::set<std::string> named = NamedKeys(inventory);
  const std::string data = board::DataPrefix(run);
  for (const std::string& key : keys) {
    const bool is_data = key.starts_with(data);
    const auto attempt = is_data ? AttemptOf(run, key) : std::nullopt;
    if (attempt) inventory.objects.insert(key);
    if (attempt && !named.contains(key)) inventory.leftovers[*attempt].push_back(key);
    if (is_data ? !attempt : !IsKnown(run, key)) inventory.unexplained.push_back(key);
  }
  return inventory;
}

}  // namespace isthmus::upkeep
