#include "isthmus/publish/upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"

namespace isthmus::publish {
namespace {

// Keys allow fewer characters than file names.
std::string KeySafe(std::string name) {
  for (char& c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '.' || c == '_' || c == '-';
    if (!safe) c = '_';
  }
  return name.substr(0, 128);
}

}  // namespace

Upload::Upload(board::Board& board, std::string run, board::VersionNumber version)
    : board_(board), run_(std::move(run)), version_(version), attempt_(RandomId()) {}

Upload::~Upload() {
  if (keep_) return;
  for (const board::PayloadPart& part : parts_) {
    try {
      board_.store().Delete(part.key);
    } catch (const Error& error) {  // left to the garbage collector
      // A store that is away would keep the caller waiting once for each part.
      if (error.code() == ErrorCode::kUnavailable) return;
    } catch (const std::exception&) {
    }
  }
}

std::string Upload::KeyFor(size_t index, const std::string& name) const {
  return board::Board::PartKey(run_, version_, attempt_,
                               fmt::format("{:05}-{}", index, KeySafe(name)));
}

void Upload::AddPart(codec::PartBuilder* builder) {
  if (builder->empty()) return;
  ByteVector bytes;
  builder->Finish(std::nullopt, [&bytes](ByteSpan piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  // Noted before it is stored: a failure half-way is cleaned up as well.
  parts_.push_back({KeyFor(parts_.size(), "patch.part"), bytes.size(), Sha256(bytes), ""});
  board_.store().Put(parts_.back().key, bytes);
}

void Upload::AddCheckpoint(const tensor::Checkpoint& checkpoint, ThreadPool& pool,
                           Progress& progress) {
  const ProgressScope scope(progress, "upload", checkpoint.total_bytes());
  const std::vector<std::string> files = checkpoint.AllFiles();
  for (const std::string& file : files) {
    parts_.push_back({KeyFor(parts_.size(), file), 0, {}, file});
  }
  pool.ParallelFor(files.size(), [&](size_t i) {
    const FileDigest stored =
        board_.store().PutFile(parts_[i].key, checkpoint.directory() / files[i],
                               [&progress](uint64_t bytes) { progress.Advance(bytes); });
    parts_[i].bytes = stored.bytes;
    parts_[i].sha256 = stored.sha256;
  });
}

}  // namespace isthmus::publish
