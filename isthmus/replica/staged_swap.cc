#include "isthmus/replica/staged_swap.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "isthmus/base/error.h"

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

// Steps 3 to 6.
void GoForward(const ControlPaths& paths, const fs::path& directory, const json::object& swap) {
  RemoveFile(paths.state());
  for (const json::value& file : swap.at("files").as_array()) {
    const std::string_view name(file.as_string());
    MoveIn(paths.stage() / name, directory / name);
  }
  for (const json::value& file : swap.at("removed").as_array()) {
    RemoveFileAndEmptyParents(directory, std::string_view(file.as_string()));
  }
  const ReplicaState state = ReplicaState::Parse(json::serialize(swap.at("state")));
  WriteState(paths, state, ReadTable(paths, state.digest));
  RemoveFile(paths.swap());
  RemoveTree(paths.stage());
}

}  // namespace

void SwapIn(const ControlPaths& paths, const fs::path& directory, const ReplicaState& state,
            const VersionTable& table) {
  const std::vector<std::string> files = FilesOf(table);
  std::vector<std::string> removed;
  std::ranges::set_difference(FilesOfKeptTables(paths), files, std::back_inserter(removed));
  WriteFileAtomic(paths.table(state.digest), table.Serialize());
  const json::object swap = {{"format", 1},
                             {"state", json::parse(state.Serialize())},
                             {"files", ToJson(files)},
                             {"removed", ToJson(removed)}};
  WriteFileAtomic(paths.swap(), AsBytes(json::serialize(swap)));
  GoForward(paths, directory, swap);
}

bool FinishSwap(const ControlPaths& paths, const fs::path& directory) try {
  if (!Exists(paths.swap())) return false;
  const json::value parsed = json::parse(ReadFile(paths.swap(), kMaxSwapBytes));
  GoForward(paths, directory, parsed.as_object());
  return true;
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {  // Boost.JSON: malformed, missing key, wrong type
  Throw(ErrorCode::kCorrupt, "read {}: {}", paths.swap().string(), error.what());
}

}  // namespace isthmus::replica
