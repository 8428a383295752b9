#include "isthmus/upkeep/anchor.h"

#include "isthmus/base/error.h"
#include "isthmus/board/extra.h"
#include "isthmus/board/kept.h"
#include "isthmus/publish/upload.h"
#include "isthmus/tensor/version_table.h"
#include "isthmus/upkeep/addition.h"

namespace isthmus::upkeep {
namespace {

// One that a cleaning has removed does not count.
bool HasAnchor(const board::Board& board, const board::Manifest& manifest) {
  if (manifest.has_anchor() && board::ReadKept(board, manifest.run).MayHave(manifest.version)) {
    return true;
  }
  const board::Extra anchor = {manifest.version, board::PayloadKind::kAnchor, board::kNoVersion};
  return board.store().Size(board::ExtraKey(manifest.run, anchor)).has_value();
}

// Before anything is stored: another checkpoint is the likelier mistake than one that changes.
void CheckIsVersion(const tensor::Checkpoint& checkpoint, const board::Manifest& manifest,
                    ThreadPool& pool, Progress& progress) {
  const Sha256Digest digest = tensor::DigestCheckpoint(checkpoint, pool, progress).Digest();
  checkpoint.CheckUnchanged();
  if (digest == manifest.digest) return;
  Throw(ErrorCode::kInvalid,
        "anchor version {} of run {}: {} is not that version: {}, the log says {}",
        manifest.version, manifest.run, checkpoint.directory().string(), FormatSha256(digest),
        FormatSha256(manifest.digest));
}

}  // namespace

uint64_t AddAnchor(board::Board& board, const std::string& run, board::VersionNumber version,
                   const fs::path& directory, ThreadPool& pool, Progress& progress) {
  const std::optional<board::Manifest> manifest = board.Read(run, version);
  if (!manifest) {
    Throw(ErrorCode::kNotFound, "anchor version {} of run {} in {}: no such version", version, run,
          board.store().Describe());
  }
  if (HasAnchor(board, *manifest)) return 0;
  const auto checkpoint = tensor::Checkpoint::Open(directory);
  CheckIsVersion(checkpoint, *manifest, pool, progress);
  publish::Upload upload(board, run, version);
  upload.AddCheckpoint(checkpoint, pool, progress);
  checkpoint.CheckUnchanged();
  const board::Payload anchor = {board::PayloadKind::kAnchor, board::kNoVersion, "",
                                 upload.parts()};
  // False: somebody else was faster.
  return AddUploaded(board, *manifest, anchor, &upload) ? anchor.bytes() : 0;
}

}  // namespace isthmus::upkeep
