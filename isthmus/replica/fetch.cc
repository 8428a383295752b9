#include "isthmus/replica/fetch.h"

#include <fmt/format.h>

#include <utility>

#include "isthmus/base/error.h"

namespace isthmus::replica {
namespace {

// kCorrupt, naming the key, unless `file` is what the manifest says; then it is gone.
void FetchOnce(store::Store& store, const board::PayloadPart& part, const fs::path& file,
               Progress& progress) {
  store.Fetch(part.key, file, part.bytes, [&](uint64_t bytes) { progress.Advance(bytes); });
  const FileDigest found = DigestFile(file);
  if (found.bytes == part.bytes && found.sha256 == part.sha256) return;
  RemoveFile(file);
  Throw(ErrorCode::kCorrupt, "fetch {} from {}: {} bytes, {}; expected {} bytes, {}", part.key,
        store.Describe(), found.bytes, FormatSha256(found.sha256), part.bytes,
        FormatSha256(part.sha256));
}

}  // namespace

void FetchPart(store::Store& store, const board::PayloadPart& part, const fs::path& file,
               Progress& progress) {
  try {
    return FetchOnce(store, part, file, progress);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
  }
  FetchOnce(store, part, file, progress);
}

FetchedPatches::FetchedPatches(fs::path directory) : directory_(std::move(directory)) {
  CreateDirectories(directory_);
}

FetchedPatches::~FetchedPatches() {
  patches_.clear();
  std::error_code ignored;  // leftovers are removed by the next start
  fs::remove_all(directory_, ignored);
}

void FetchedPatches::Add(store::Store& store, const board::Payload& payload, ThreadPool& pool,
                         Progress& progress) {
  const ProgressScope scope(progress, "fetch", payload.bytes());
  std::vector<Fetched> fetched(payload.parts.size());
  pool.ParallelFor(payload.parts.size(), [&](size_t i) {
    const fs::path file = directory_ / fmt::format("{}-{}.part", patches_.size(), i);
    FetchPart(store, payload.parts[i], file, progress);
    fetched[i].map = std::make_unique<MappedFile>(file, Access::kRead);
    try {
      fetched[i].part = std::make_unique<codec::Part>(codec::Part::Open(fetched[i].map->bytes()));
    } catch (const Error& error) {
      throw error.Annotated(payload.parts[i].key);
    }
  });
  patches_.push_back(std::move(fetched));
}

std::vector<codec::Patch> FetchedPatches::patches() const {
  std::vector<codec::Patch> patches;
  for (const auto& fetched : patches_) {
    codec::Patch& patch = patches.emplace_back();
    for (const Fetched& item : fetched) patch.push_back(item.part.get());
  }
  return patches;
}

}  // namespace isthmus::replica
