#include "isthmus/replica/staged_swap.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <string>
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

std::string FileName(const json::value& value) {
  std::string name(value.as_string());
  if (!tensor::IsFilePath(name)) {
    Throw(ErrorCode::kCorrupt, "read swap.json: {:?} is not a file of a checkpoint", name);
  }
  return name;
}

// Steps 3 to 6.
void GoForward(const ControlPaths& paths, const fs::path& directory, const json::object& swap) {
  RemoveFile(paths.state());
  for (const json::value& file : swap.at("removed").as_array()) {
    RemoveFileAndEmptyParents(directory, FileName(file));
  }
  for (const json::value& file : swap.at("files").as_array()) {
    const std::string name = FileName(file);
    MoveIn(paths.stage() / name, directory / name);
  }
  const ReplicaState state = ReplicaState::Parse(json::serialize(swap.at("state")));
  WriteState(paths, state, ReadTable(paths, state.digest));
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
  const std::vector<std::string> files = FilesOf(table);
  std::vector<std::string> removed;
  std::ranges::set_difference(VisibleFiles(directory), files, std::back_inserter(removed));
  WriteFileAtomic(paths.table(state.digest), table.Serialize());
  const json::object swap = {{"format", 1},
                             {"state", json::parse(state.Serialize())},
                             {"files", ToJson(files)},
                             {"removed", ToJson(removed)}};
  WriteFileAtomic(paths.swap(), AsBytes(json::serialize(swap)));
  GoForward(paths, directory, swap);
}

bool FinishSwap(const ControlPaths& paths, const fs::path& directory) {
  if (!Exists(paths.swap())) return false;
  try {
    const std::string text = ReadFile(paths.swap(), kMaxSwapBytes);
    GoForward(paths, directory, board::ParseJson(text).as_object());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kNotFound) throw;
    Abandon(paths);
  } catch (const boost::system::system_error&) {  // a missing key or a wrong type
    Abandon(paths);
  }
  return true;
}

}  // namespace isthmus::replica
