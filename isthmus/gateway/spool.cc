#include "isthmus/gateway/spool.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::gateway {
namespace {

// Of a list of ids: that of the largest segment, with room to spare.
constexpr uint64_t kMaxIdsBytes = uint64_t{256} << 20;

struct Found {
  fs::file_time_type time;
  fs::path file;

  bool operator<(const Found& other) const {
    return std::tie(time, file) < std::tie(other.time, other.file);
  }
};

std::vector<Found> FilesIn(const fs::path& directory) {
  std::vector<Found> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::error_code gone;
    const auto time = entry.last_write_time(gone);
    if (!gone) found.push_back({time, entry.path()});
  }
  if (error) ThrowErrno(error.value(), "list", directory.string());
  std::ranges::sort(found, std::less<>());
  return found;
}

bool IsTemporary(const fs::path& file) {
  const std::string name = file.filename();
  return name.starts_with('.') && name.find(".tmp-") != std::string::npos;
}

}  // namespace

Spool::Spool(fs::path directory, std::string instance)
    : directory_(std::move(directory)), instance_(std::move(instance)) {
  if (!IsInstance(instance_)) {
    Throw(ErrorCode::kInvalid,
          "record as {:?}: an instance's name is 1 to 64 of [A-Za-z0-9._-], not beginning with '.'",
          instance_);
  }
  CreateDirectories(directory_);
  lock_.emplace(directory_ / "lock", fmt::format("spool {}", directory_.string()));
  for (const Found& found : FilesIn(directory_)) {
    if (IsTemporary(found.file)) RemoveFile(found.file);
  }
}

std::vector<Spool::Leftover> Spool::Recover(std::vector<std::string>* unreadable) {
  std::vector<Leftover> leftovers;
  for (const Found& found : FilesIn(directory_)) {
    if (!IsSegmentStem(found.file.stem().string())) continue;
    auto leftover = RecoverOne(found.file, unreadable);
    if (leftover) leftovers.push_back(std::move(*leftover));
  }
  return leftovers;
}

std::optional<Spool::Leftover> Spool::RecoverOne(const fs::path& file,
                                                 std::vector<std::string>* unreadable) {
  Leftover leftover{MakeSegment(file.stem()), {}};
  Segment& segment = *leftover.segment;
  if (file == segment.ids_file) {
    // Uploaded, but not yet removed: it is uploaded again.
    if (Exists(segment.file)) return std::nullopt;
    try {
      segment.object = ReadIds(file, kMaxIdsBytes);
    } catch (const Error&) {
      RemoveFile(file);
      return std::nullopt;
    }
    leftover.lines = std::exchange(segment.object->lines, {});
    return leftover;
  }
  if (file != segment.file) return std::nullopt;
  try {
    ScannedSegment scanned = RecoverSegment(file);
    segment.bytes = scanned.bytes;
    leftover.lines = std::move(scanned.lines);
    segment.lines = leftover.lines.size();
    if (segment.bytes > 0) return leftover;
    RemoveFile(file);
  } catch (const Error& error) {
    unreadable->emplace_back(error.what());
  }
  return std::nullopt;
}

std::shared_ptr<Segment> Spool::MakeSegment(const std::string& stem) const {
  auto segment = std::make_shared<Segment>();
  segment->stem = stem;
  segment->file = directory_ / (stem + std::string(kSegmentSuffix));
  segment->ids_file = directory_ / (stem + std::string(kIdsSuffix));
  return segment;
}

// An instance's name that was used before, in this spool, goes on counting.
void Spool::Open(bool sync) {
  do {
    current_ = MakeSegment(SegmentStem(SystemClock().Now(), instance_, ++sequence_));
  } while (Exists(current_->ids_file) || Exists(current_->file));
  try {
    file_ = File::CreateNew(current_->file);
    if (sync) SyncDirectory(directory_);
  } catch (const Error&) {
    Close();
    throw;
  }
}

uint64_t Spool::Append(std::string_view line, bool sync) {
  const uint64_t offset = current_->bytes;
  try {
    file_->WriteAt(offset, AsBytes(line));
    if (sync) file_->Sync();
  } catch (const Error&) {
    // Else what comes next would be appended to the torn line's place, and be torn if shorter.
    if (::ftruncate(file_->fd(), static_cast<off_t>(offset)) != 0) Close();
    throw;
  }
  current_->bytes += line.size();
  ++current_->lines;
  return offset;
}

std::shared_ptr<Segment> Spool::Close() {
  file_.reset();
  return std::exchange(current_, nullptr);
}

}  // namespace isthmus::gateway
