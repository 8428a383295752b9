// What a replica says about itself, in its hidden control directory.
#ifndef ISTHMUS_REPLICA_STATE_H_
#define ISTHMUS_REPLICA_STATE_H_

#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/file.h"
#include "isthmus/board/manifest.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::replica {

// The control directory and its files. Everything else in a replica's directory is the checkpoint.
struct ControlPaths {
  explicit ControlPaths(const fs::path& replica) : root(replica / ".isthmus") {}

  fs::path root;
  fs::path lock() const { return root / "lock"; }
  fs::path marker() const {
    return root / "replica";
  }  // exists: all files beside are the replica's
  fs::path state() const { return root / "state.json"; }  // the version held; absent: none
  fs::path table(const Sha256Digest& digest) const { return root / (digest.Hex() + ".table"); }
  fs::path journal() const { return root / "journal.json"; }  // exists while shards are changing
  fs::path undo() const { return root / "undo.log"; }
  fs::path swap() const { return root / "swap.json"; }  // exists while staged files move in
  fs::path stage() const { return root / "stage"; }
  fs::path fetch() const { return root / "fetch"; }
  fs::path changes() const { return root / "changes"; }
};

// The version that a replica holds.
struct ReplicaState {
  std::string board;  // uuid
  std::string run;
  board::VersionNumber version = board::kNoVersion;
  Sha256Digest digest;
  // The boot in which the content was last verified. Under another boot the file system may have
  // lost writes that were never synced, so the replica is verified in full before it is believed.
  std::string boot_id;

  std::string Serialize() const;
  static ReplicaState Parse(std::string_view text);  // kCorrupt
  bool operator==(const ReplicaState&) const = default;
};

// This boot's id (Linux: /proc/sys/kernel/random/boot_id); a fixed text where there is none.
std::string BootId();

// nullopt if the replica holds no version, or one that cannot be read (a damaged file is no claim).
// A pending journal or swap is not looked at: the constructor of Replica does.
std::optional<ReplicaState> ReadState(const ControlPaths& paths);

// Writes the table, then the state: the point at which the replica is at the version. Removes
// tables of other versions.
void WriteState(const ControlPaths& paths, const ReplicaState& state,
                const tensor::VersionTable& table);

// Every file below a directory, sorted, but for hidden names (the control directory).
std::vector<std::string> VisibleFiles(const fs::path& directory);

// The files of a version: shards and others.
std::vector<std::string> FilesOf(const tensor::VersionTable& table);

// The table of a state, checked against its digest; kCorrupt or kNotFound.
tensor::VersionTable ReadTable(const ControlPaths& paths, const Sha256Digest& digest);

}  // namespace isthmus::replica

#endif  // ISTHMUS_REPLICA_STATE_H_
