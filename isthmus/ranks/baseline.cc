#include "isthmus/ranks/baseline.h"

#include <fmt/format.h>

#include "isthmus/base/error.h"
#include "isthmus/board/small_object.h"
#include "isthmus/ranks/remote_version.h"
#include "isthmus/replica/state.h"

namespace isthmus::ranks {
namespace {

constexpr uint64_t kMaxStateBytes = 64 << 10;
constexpr uint64_t kMaxOutlineBytes = board::kMaxManifestBytes;

fs::path StatePath(const fs::path& directory) { return directory / "state.json"; }
fs::path OutlinePath(const fs::path& directory) { return directory / "outline"; }
fs::path RegionsPath(const fs::path& directory) { return directory / "regions"; }
fs::path MarkerPath(const fs::path& directory) { return directory / "rank-baseline"; }

// A directory that is empty or has been a baseline: its files are written over.
fs::path OwnDirectory(const fs::path& directory) {
  CreateDirectories(directory);
  if (!Exists(MarkerPath(directory))) {
    if (!fs::is_empty(directory)) {
      Throw(ErrorCode::kInvalid, "open baseline {}: it holds files, and no rank's baseline",
            directory.string());
    }
    WriteFileAtomic(MarkerPath(directory), {});
  }
  return directory;
}

}  // namespace

struct RankBaseline::State {
  std::string board;
  std::string run;
  board::VersionNumber version = board::kNoVersion;
  Sha256Digest digest;
  Sha256Digest outline;
  Sha256Digest contents;
  std::string boot;

  bool Is(const std::string& uuid, const board::Manifest& manifest) const {
    return board == uuid && run == manifest.run && version == manifest.version &&
           digest == manifest.digest && boot == replica::BootId();
  }
};

RankBaseline::RankBaseline(const fs::path& directory)
    : directory_(OwnDirectory(directory)),
      lock_(directory / "lock", fmt::format("baseline {}", directory.string())) {}

std::optional<RankBaseline::State> RankBaseline::ReadState() const {
  try {
    const std::string text = ReadFile(StatePath(directory_), kMaxStateBytes);
    const auto document = board::ParseJson(text);
    const board::JsonFields fields(document, "");
    fields.CheckFormat();
    return State{fields.Text("board"),    fields.Text("run"),       fields.Count("version", 1),
                 fields.Digest("digest"), fields.Digest("outline"), fields.Digest("contents"),
                 fields.Text("boot")};
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kUnavailable) throw;
    return std::nullopt;  // none, or one that says nothing
  }
}

void RankBaseline::WriteState(const board::Manifest& version) const {
  const boost::json::object object = {{"format", board::kBoardFormat},
                                      {"board", board_},
                                      {"run", version.run},
                                      {"version", version.version},
                                      {"digest", FormatSha256(version.digest)},
                                      {"outline", FormatSha256(outline_)},
                                      {"contents", FormatSha256(contents_)},
                                      {"boot", replica::BootId()}};
  WriteFileAtomic(StatePath(directory_), AsBytes(board::ToText(object)));
}

tensor::VersionTable RankBaseline::OutlineOf(const board::Board& board, const board::Manifest& head,
                                             ThreadPool& pool, Progress& progress) const {
  const std::optional<State> state = ReadState();
  if (state && state->Is(board.uuid(), head)) {
    try {
      const std::string text = ReadFile(OutlinePath(directory_), kMaxOutlineBytes);
      if (Sha256(AsBytes(text)) == state->outline) {
        return tensor::VersionTable::Parse(AsBytes(text));
      }
    } catch (const Error& error) {
      if (!MeansDamage(error)) throw;
    }
  }
  return RemoteVersion(board, head, directory_ / "fetch", pool, progress).outline();
}

bool RankBaseline::Prepare(const board::Board& board, const board::Manifest& head,
                           const tensor::VersionTable& outline, const Assignment& assignment,
                           uint32_t rank, ThreadPool& pool, Progress& progress) {
  board_ = board.uuid();
  const ByteVector table = outline.Serialize();
  outline_ = Sha256(table);
  ByteWriter what;
  what.Append(outline_.span());
  LayOut(assignment, rank);
  for (const auto& [place, region] : regions_) {
    for (const uint64_t number : {place.first, place.second, region.bytes}) what.Le(number);
  }
  contents_ = Sha256(what.bytes());
  const std::optional<State> state = ReadState();
  const bool same = state && state->Is(board_, head) && state->contents == contents_;
  if (same && map_) return false;
  std::error_code missing;
  if (same && fs::file_size(RegionsPath(directory_), missing) == total_bytes_) {
    map_.emplace(RegionsPath(directory_), Access::kReadWrite);
    return false;
  }
  Forget();
  WriteFileAtomic(OutlinePath(directory_), table);
  Build(board, head, pool, progress);
  WriteState(head);
  return true;
}

void RankBaseline::LayOut(const Assignment& assignment, uint32_t rank) {
  regions_.clear();
  total_bytes_ = 0;
  const auto add = [&](const Slice& units) {
    const auto& chunk = assignment.layout().chunks()[units.chunk];
    const uint64_t bytes = units.units * tensor::UnitBytes(chunk.dtype);
    regions_[{units.chunk, units.first}] = {units, total_bytes_, bytes};
    total_bytes_ += bytes;
  };
  for (const size_t chunk : assignment.OwnedBy(rank)) {
    add({chunk, 0, assignment.layout().chunks()[chunk].units});
  }
  for (const auto& [owner, slices] : assignment.SlicesOf(rank)) {
    for (const Slice& slice : slices) add(slice);
  }
}

void RankBaseline::Build(const board::Board& board, const board::Manifest& head, ThreadPool& pool,
                         Progress& progress) {
  const RemoteVersion version(board, head, directory_ / "fetch", pool, progress);
  map_.reset();
  File::Create(RegionsPath(directory_));
  std::error_code error;
  fs::resize_file(RegionsPath(directory_), total_bytes_, error);
  if (error) ThrowErrno(error.value(), "make room in", RegionsPath(directory_).string());
  map_.emplace(RegionsPath(directory_), Access::kReadWrite);
  const ProgressScope scope(progress, "baseline", total_bytes_);
  std::vector<size_t> chunks;
  for (const auto& [place, region] : regions_) {
    if (chunks.empty() || chunks.back() != place.first) chunks.push_back(place.first);
  }
  pool.ParallelFor(chunks.size(), [&](size_t i) {
    thread_local ByteVector bytes;
    version.ReadChunk(chunks[i], &bytes);
    for (auto at = regions_.lower_bound({chunks[i], 0});
         at != regions_.end() && at->first.first == chunks[i]; ++at) {
      const Region& region = at->second;
      const uint64_t unit_bytes = region.bytes / region.units.units;
      map_->WriteAt(region.offset,
                    ByteSpan(bytes).subspan(region.units.first * unit_bytes, region.bytes));
      progress.Advance(region.bytes);
    }
  });
}

const RankBaseline::Region& RankBaseline::RegionOf(const Slice& units) const {
  return regions_.at({units.chunk, units.first});
}

ByteSpan RankBaseline::Bytes(const Slice& region) const {
  const Region& found = RegionOf(region);
  return map_->bytes().subspan(found.offset, found.bytes);
}

void RankBaseline::BeginChange() { RemoveFile(StatePath(directory_)); }

void RankBaseline::Write(const Slice& region, ByteSpan bytes) {
  map_->WriteAt(RegionOf(region).offset, bytes);
}

void RankBaseline::EndChange(const board::Manifest& next) {
  map_->CheckIntact();
  WriteState(next);
}

void RankBaseline::Forget() {
  map_.reset();
  RemoveFile(StatePath(directory_));
}

}  // namespace isthmus::ranks
