#include "isthmus/replica/state.h"

#include <algorithm>
#include <boost/json.hpp>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::replica {
namespace {

namespace json = boost::json;

constexpr uint64_t kStateFormat = 1;
constexpr uint64_t kMaxStateBytes = 1 << 16;
constexpr uint64_t kMaxTableBytes = uint64_t{1} << 30;
constexpr std::string_view kTableSuffix = ".table";

}  // namespace

std::string ReplicaState::Serialize() const {
  return json::serialize(json::object{{"format", kStateFormat},
                                      {"board", board},
                                      {"run", run},
                                      {"version", version},
                                      {"digest", FormatSha256(digest)},
                                      {"boot_id", boot_id}});
}

ReplicaState ReplicaState::Parse(std::string_view text) {
  const json::value parsed = board::ParseJson(text);
  const board::JsonFields fields(parsed, "");
  if (fields.Count("format") != kStateFormat) fields.Refuse("format", "unknown");
  ReplicaState state;
  state.board = fields.Text("board");
  state.run = fields.Text("run");
  state.version = fields.Count("version", 1, board::kMaxVersion);
  state.digest = fields.Digest("digest");
  state.boot_id = fields.Text("boot_id");
  return state;
}

std::string BootId() {
  static const std::string id = [] {
    const fs::path path = "/proc/sys/kernel/random/boot_id";
    std::error_code missing;
    if (!fs::exists(path, missing)) return std::string("unknown");
    ByteVector text(36);  // a UUID; files in /proc state no size
    File::OpenRead(path).ReadAt(0, text);
    return std::string(AsText(text));
  }();
  return id;
}

std::optional<ReplicaState> ReadState(const ControlPaths& paths) {
  try {
    return ReplicaState::Parse(ReadFile(paths.state(), kMaxStateBytes));
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return std::nullopt;
  }
}

void WriteState(const ControlPaths& paths, const ReplicaState& state,
                const tensor::VersionTable& table) {
  const fs::path table_path = paths.table(state.digest);
  WriteFileAtomic(table_path, table.Serialize());
  WriteFileAtomic(paths.state(), AsBytes(state.Serialize()));
  std::error_code ignored;  // a leftover costs space only
  for (const auto& entry : fs::directory_iterator(paths.root, ignored)) {
    if (entry.path().extension() == kTableSuffix && entry.path() != table_path) {
      fs::remove(entry.path(), ignored);
    }
  }
}

std::vector<std::string> VisibleFiles(const fs::path& directory) try {
  std::vector<std::string> files;
  for (auto at = fs::recursive_directory_iterator(directory); at != fs::end(at); ++at) {
    if (at->path().filename().string().starts_with('.')) {
      at.disable_recursion_pending();
    } else if (!at->is_directory()) {
      files.push_back(at->path().lexically_relative(directory).generic_string());
    }
  }
  std::ranges::sort(files);
  return files;
} catch (const fs::filesystem_error& error) {
  ThrowErrno(error.code().value(), "list", error.path1().string());
}

std::vector<std::string> FilesOf(const tensor::VersionTable& table) {
  std::vector<std::string> files;
  files.reserve(table.shards.size() + table.files.size());
  for (const auto& shard : table.shards) files.push_back(shard.file);
  for (const auto& file : table.files) files.push_back(file.path);
  std::ranges::sort(files);
  return files;
}

tensor::VersionTable ReadTable(const ControlPaths& paths, const Sha256Digest& digest) {
  const std::string bytes = ReadFile(paths.table(digest), kMaxTableBytes);
  if (Sha256(AsBytes(bytes)) != digest) {
    Throw(ErrorCode::kCorrupt, "read {}: its content is not what its name says",
          paths.table(digest).string());
  }
  return tensor::VersionTable::Parse(AsBytes(bytes));
}

}  // namespace isthmus::replica
