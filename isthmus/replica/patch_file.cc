#include "isthmus/replica/patch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "isthmus/base/error.h"
#include "isthmus/base/mapped_file.h"
#include "isthmus/base/random.h"
#include "isthmus/replica/chain_apply.h"
#include "isthmus/replica/journal.h"

namespace isthmus::replica {
namespace {

using tensor::Checkpoint;

// An open patch file with the versions that it must state.
class PatchFile {
 public:
  explicit PatchFile(const fs::path& path) : path_(path), map_(path, Access::kRead), part_(Open()) {
    if (part_.versions()) return;
    Throw(ErrorCode::kInvalid,
          "apply {}: a part of a board's version, which does not say what it applies to; pull it",
          path.string());
  }

  // The chain from a checkpoint that has been hashed, if it is the base.
  codec::Chain ChainFrom(const tensor::VersionTable& base, const fs::path& checkpoint) const {
    const Sha256Digest found = base.Digest();
    if (found == part_.versions()->target && found != part_.versions()->base) {
      Throw(ErrorCode::kCorrupt, "apply {} to {}: wrong base: this is already the result, {}",
            path_.string(), checkpoint.string(), FormatSha256(found));
    }
    if (found != part_.versions()->base) {
      Throw(ErrorCode::kCorrupt, "apply {} to {}: wrong base: it applies to {}, this is {}",
            path_.string(), checkpoint.string(), FormatSha256(part_.versions()->base),
            FormatSha256(found));
    }
    return {base, {codec::Patch{&part_}}};
  }

  // ApplyChain, with errors that name the patch.
  void Apply(const Checkpoint& checkpoint, const codec::Chain& chain, UndoLog* undo,
             ThreadPool& pool, Progress& progress) const {
    try {
      ApplyChain(checkpoint, chain, target(), undo, pool, progress);
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("apply {}", path_.string()));
    }
  }

  const Sha256Digest& target() const { return part_.versions()->target; }

  PatchFileResult Result(const Checkpoint& checkpoint) const {
    PatchFileResult result;
    result.tensors = part_.tensors().size();
    for (const codec::TensorEntry& entry : part_.tensors()) result.changed += entry.changed;
    result.verified = checkpoint.tensors().size();
    return result;
  }

 private:
  codec::Part Open() const {
    try {
      return codec::Part::Open(map_.bytes());
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("read {}", path_.string()));
    }
  }

  fs::path path_;
  MappedFile map_;
  codec::Part part_;
};

void RefuseReplica(const ControlPaths& paths, const fs::path& checkpoint) {
  if (!Exists(paths.marker())) return;
  Throw(ErrorCode::kInvalid, "apply to {}: a replica that follows a board; use pull",
        checkpoint.string());
}

void CopyCheckpoint(const Checkpoint& from, const fs::path& to, ThreadPool& pool,
                    Progress& progress) {
  const ProgressScope scope(progress, "copy", from.total_bytes());
  const std::vector<std::string> files = from.AllFiles();
  for (const std::string& file : files) CreateDirectories((to / file).parent_path());
  pool.ParallelFor(files.size(), [&](size_t i) {
    CopyFile(from.directory() / files[i], to / files[i], false,
             [&progress](uint64_t bytes) { progress.Advance(bytes); });
  });
}

// Removes the directory on destruction unless it was renamed away.
class BuildDirectory {
 public:
  explicit BuildDirectory(const fs::path& out)
      : path_(out.parent_path() / fmt::format(".{}.tmp-{}", out.filename().string(), RandomId())) {
    CreateDirectories(path_);
  }
  ~BuildDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  BuildDirectory(const BuildDirectory&) = delete;
  BuildDirectory& operator=(const BuildDirectory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// In place means into these very files: other names of them must not change.
void RefuseSharedShards(const Checkpoint& checkpoint) {
  for (const Checkpoint::Shard& shard : checkpoint.shards()) {
    const fs::path path = checkpoint.directory() / shard.file;
    if (!fs::is_symlink(path) && fs::hard_link_count(path) == 1) continue;
    Throw(
        ErrorCode::kInvalid,
        "apply to {}: the file is a link, others may share it; name a new directory for the result",
        path.string());
  }
}

// The control directory of a checkpoint that is no replica: it exists, locked, while the checkpoint
// is being changed, and after a crash.
class Control {
 public:
  explicit Control(const fs::path& checkpoint) : paths_(checkpoint), lock_(Lock(checkpoint)) {}
  ~Control() {
    if (Exists(paths_.journal())) return;  // what it leads back from is not over
    std::error_code ignored;
    fs::remove(paths_.lock(), ignored);
    fs::remove(paths_.root, ignored);
  }
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const ControlPaths& paths() const { return paths_; }

 private:
  // Whoever held the lock before may be removing the directory just now.
  FileLock Lock(const fs::path& checkpoint) const {
    constexpr int kTries = 100;
    for (int i = 0; i < kTries; ++i) {
      try {
        CreateDirectories(paths_.root);
        return {paths_.lock(), "checkpoint " + checkpoint.string()};
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kNotFound) throw;
      }
    }
    Throw(ErrorCode::kConflict, "lock checkpoint {}: others are changing it", checkpoint.string());
  }

  ControlPaths paths_;
  FileLock lock_;
};

// Takes the change back and checks that this gave the base; `why` is what made it necessary. Until
// that is so, the journal stays.
void TakeBack(const ControlPaths& paths, const fs::path& directory, const Sha256Digest& base,
              const std::string& why, ThreadPool& pool, Progress& progress) {
  try {
    Journal::TakeBack(paths, directory);
    const Sha256Digest found =
        tensor::DigestCheckpoint(Checkpoint::Open(directory), pool, progress).Digest();
    if (found != base) {
      Throw(ErrorCode::kCorrupt, "it is {}, expected {}", FormatSha256(found), FormatSha256(base));
    }
  } catch (const Error& error) {
    Throw(ErrorCode::kCorrupt,
          "take back the change of {} ({}): {}; it is between two versions, restore it from a copy",
          directory.string(), why, error.what());
  }
  Journal::Discard(paths);
}

void ChangeInPlace(const PatchFile& file, const ControlPaths& paths, const Checkpoint& checkpoint,
                   const codec::Chain& chain, ThreadPool& pool, Progress& progress) {
  const Sha256Digest base = chain.base().Digest();
  Journal journal(paths, {base, file.target()});
  try {
    file.Apply(checkpoint, chain, &journal.undo(), pool, progress);
    // Nobody else has this checkpoint: it must be on disk before the way back is given up.
    for (const Checkpoint::Shard& shard : checkpoint.shards()) shard.map.Sync();
  } catch (const std::exception& error) {
    TakeBack(paths, checkpoint.directory(), base, error.what(), pool, progress);
    throw;
  }
  journal.Finish();
}

}  // namespace

PatchFileResult ApplyPatchInPlace(const fs::path& patch, const fs::path& directory,
                                  ThreadPool& pool, Progress& progress) {
  const PatchFile file(patch);
  RefuseReplica(ControlPaths(directory), directory);
  if (!Exists(directory)) Throw(ErrorCode::kNotFound, "apply to {}: not found", directory.string());
  const Control control(directory);
  const std::optional<JournalEntry> pending = Journal::Pending(control.paths());
  if (pending) {
    TakeBack(control.paths(), directory, pending->from, "a crash had interrupted it", pool,
             progress);
  }
  const Checkpoint checkpoint = Checkpoint::Open(directory, Access::kReadWrite);
  RefuseSharedShards(checkpoint);
  const codec::Chain chain =
      file.ChainFrom(tensor::DigestCheckpoint(checkpoint, pool, progress), directory);
  ChangeInPlace(file, control.paths(), checkpoint, chain, pool, progress);
  PatchFileResult result = file.Result(checkpoint);
  if (pending) result.notes.emplace_back("took back an earlier change that was interrupted");
  return result;
}

PatchFileResult ApplyPatchTo(const fs::path& patch, const fs::path& directory, const fs::path& out,
                             ThreadPool& pool, Progress& progress) {
  const PatchFile file(patch);
  const fs::path target = fs::absolute(out).lexically_normal();
  const fs::path place = target.has_filename() ? target : target.parent_path();
  if (Exists(place)) {
    Throw(ErrorCode::kConflict, "write {}: it exists; name a new directory", place.string());
  }
  const Checkpoint source = Checkpoint::Open(directory);
  const codec::Chain chain =
      file.ChainFrom(tensor::DigestCheckpoint(source, pool, progress), directory);
  const BuildDirectory build(place);
  CopyCheckpoint(source, build.path(), pool, progress);
  const Checkpoint copy = Checkpoint::Open(build.path(), Access::kReadWrite);
  file.Apply(copy, chain, nullptr, pool, progress);
  if (std::rename(build.path().c_str(), place.c_str()) != 0) {
    ThrowErrno(errno, "move into place", place.string());
  }
  return file.Result(source);
}

}  // namespace isthmus::replica
