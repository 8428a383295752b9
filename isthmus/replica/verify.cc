#include "isthmus/replica/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/codec/diff.h"
#include "isthmus/replica/chain_apply.h"
#include "isthmus/replica/state.h"

namespace isthmus::replica {
namespace {

using tensor::VersionTable;

void CompareFiles(const VersionTable& found, const VersionTable& expected, Problems* problems) {
  for (const auto& file : expected.files) {
    const auto at = std::ranges::find(found.files, file.path, &VersionTable::File::path);
    if (at == found.files.end()) {
      problems->push_back(fmt::format("file {} is missing", file.path));
    } else if (*at != file) {
      problems->push_back(fmt::format("file {} differs", file.path));
    }
  }
  for (const auto& file : found.files) {
    if (std::ranges::find(expected.files, file.path, &VersionTable::File::path) ==
        expected.files.end()) {
      problems->push_back(fmt::format("file {} is not in the other checkpoint", file.path));
    }
  }
}

// Tables of checkpoints between which a patch could lead: the same tensors and shards.
void CompareTables(const VersionTable& found, const VersionTable& expected, Problems* problems) {
  for (size_t i = 0; i < expected.tensors.size(); ++i) {
    if (found.tensors[i].digest == expected.tensors[i].digest) continue;
    problems->push_back(fmt::format("tensor {} differs: {}, expected {}", expected.tensors[i].name,
                                    found.tensors[i].digest.Hex(),
                                    expected.tensors[i].digest.Hex()));
  }
  for (size_t i = 0; i < expected.shards.size(); ++i) {
    if (found.shards[i] == expected.shards[i]) continue;
    problems->push_back(fmt::format("the header of shard {} differs", expected.shards[i].file));
  }
  CompareFiles(found, expected, problems);
}

}  // namespace

Problems FindDifferences(const fs::path& directory, const fs::path& against, ThreadPool& pool,
                         Progress& progress) {
  const auto found = tensor::Checkpoint::Open(directory);
  const auto expected = tensor::Checkpoint::Open(against);
  if (const auto why = codec::WhyNoPatch(expected, found)) return {*why};
  Problems problems;
  CompareTables(tensor::DigestCheckpoint(found, pool, progress),
                tensor::DigestCheckpoint(expected, pool, progress), &problems);
  return problems;
}

Problems FindReplicaDamage(const fs::path& directory, ThreadPool& pool, Progress& progress) {
  const ControlPaths paths(directory);
  if (!Exists(paths.marker())) {
    Throw(ErrorCode::kNotFound, "verify replica {}: no replica there", directory.string());
  }
  if (Exists(paths.journal()) || Exists(paths.swap())) {
    return {"a change is going on, or was interrupted: the next pull completes or takes it back"};
  }
  const auto state = ReadState(paths);
  if (!state) return {"at no version"};
  Problems problems;
  try {
    const VersionTable table = ReadTable(paths, state->digest);
    const auto checkpoint = tensor::Checkpoint::Open(directory);
    problems = FindDamage(checkpoint, table, pool, progress);
    for (const auto& file : checkpoint.other_files()) {
      if (!std::ranges::binary_search(table.files, file.path, {}, &VersionTable::File::path)) {
        problems.push_back(fmt::format("file {} is not of this version", file.path));
      }
    }
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;  // no room or permission: no finding
    problems = {error.what()};
  }
  if (Exists(paths.journal()) || Exists(paths.swap()) || ReadState(paths) != state) {
    Throw(ErrorCode::kNotReady, "verify replica {}: a pull changed it meanwhile, try again",
          directory.string());
  }
  return problems;
}

}  // namespace isthmus::replica
