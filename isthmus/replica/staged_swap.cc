#include "isthmus/replica/staged_swap.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::replica {
namespace {

namespace json = boost::json;
using tensor::VersionTable;

constexpr uint64_t kMaxSwapBytes = uint64_t{1} << 28;

json::array ToJson(const std::vector<std::string>& names) {
  return json::array(names.begin(), names.end());
}

void MoveIn(const fs::path& staged, const fs::path& place) {
  if (!Exists(staged)) return;  // moved before the crash
  CreateDirectories(place.parent_path());
  if (std::rename(staged.c_str(), place.c_str()) != 0) {
    ThrowErrno(errno, "move into place", place.string());
  }
}

// What swap.json says.
struct Swap {
  ReplicaState state;
  std::vector<std::string> files;
  std::vector<std::string> removed;
};

std::vector<std::string> FileNames(const json::value& list) {
  std::vector<std::string> names;
  for (const json::value& item : list.as_array()) {
    std::string name(item.as_string());
    if (!tensor::IsFilePath(name)) {
      Throw(ErrorCode::kCorrupt, "read swap.json: {:?} is not a file of a checkpoint", name);
    }
    names.push_back(std::move(name));
  }
  return names;
}

// nullopt if it is damaged.
std::optional<Swap> ReadSwap(const fs::path& path) {
  const std::string text = ReadFile(path, kMaxSwapBytes);
  try {
    const json::value parsed = board::ParseJson(text);
    const json::object& object = parsed.as_object();
    return Swap{ReplicaState::Parse(json::serialize(object.at("state"))),
                FileNames(object.at("files")), FileNames(object.at("removed"))};
  } catch (const std::exception&) {  // Boost.JSON: a missing key, a wrong type; or kCorrupt
    return std::nullopt;
  }
}

// Steps 3 to 6.
void GoForward(const ControlPaths& paths, const fs::path& directory, const Swap& swap) {
  RemoveFile(paths.state());
  for (const std::string& file : swap.removed) RemoveFileAndEmptyParents(directory, file);
  for (const std::string& file : swap.files) MoveIn(paths.stage() / file, directory / file);
  WriteState(paths, swap.state, ReadTable(paths, swap.state.digest));
  RemoveFile(paths.swap());
  RemoveTree(paths.stage());
}

// A swap.json or a table that cannot be read (their writes are atomic, so the disk failed) says
// nothing about the files: the replica is at no version.
void Abandon(const ControlPaths& paths) {
  RemoveFile(paths.state());
  RemoveFile(paths.swap());
}

}  // namespace

void SwapIn(const ControlPaths& paths, const fs::path& directory, const ReplicaState& state,
            const VersionTable& table) {
  Swap swap = {state, FilesOf(table), {}};
  std::ranges::set_difference(VisibleFiles(directory), swap.files,
                              std::back_inserter(swap.removed));
  WriteFileAtomic(paths.table(state.digest), table.Serialize());
  const json::object text = {{"format", 1},
                             {"state", json::parse(state.Serialize())},
                             {"files", ToJson(swap.files)},
                             {"removed", ToJson(swap.removed)}};
  WriteFileAtomic(paths.swap(), AsBytes(json::serialize(text)));
  GoForward(paths, directory, swap);
}

bool FinishSwap(const ControlPaths& paths, const fs::path& directory) {
  if (!Exists(paths.swap())) return false;
  const std::optional<Swap> swap = ReadSwap(paths.swap());
  if (!swap) {
    Abandon(paths);
    return true;
  }
  try {
    GoForward(paths, directory, *swap);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    Abandon(paths);
  }
  return true;
}

}  // namespace isthmus::replica
