// A chain of patches against the version that it starts from: checked as a whole before the first
// byte is written, then folded chunk by chunk (docs/patch-format.md, section 4).
#ifndef ISTHMUS_CODEC_CHAIN_H_
#define ISTHMUS_CODEC_CHAIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "isthmus/codec/layout.h"
#include "isthmus/codec/old_units.h"
#include "isthmus/codec/part.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::codec {

// The parts of one patch.
using Patch = std::vector<const Part*>;

// Immutable after construction; const methods are thread-safe. The parts must outlive it.
class Chain {
 public:
  // `patches` oldest first, each relative to the one before it, the first to `base`. Checks that
  // every entry names a tensor of the base with its dtype and shape, that chunks exist, are in one
  // part of a patch only and have payloads that fit, and that files exist where they must. Throws
  // kCorrupt.
  Chain(tensor::VersionTable base, const std::vector<Patch>& patches);

  const tensor::VersionTable& base() const { return base_; }
  // What the checkpoint will be, but for the digests of its tensors, which are those of the base:
  // patches do not hold them.
  const tensor::VersionTable& outline() const { return outline_; }
  // How the base is cut into chunks; pieces name tensors by their index in base().tensors.
  const ChunkLayout& layout() const { return layout_; }

  // Whether a chunk has a payload in any patch.
  bool Touches(size_t chunk) const { return !steps_[chunk].empty(); }
  // Turns the chunk's base bytes, all its pieces one after another, into the result's. `old`
  // (nullptr: not wanted) gets what was overwritten, as ApplyChunk (chunk.h) gives it.
  void FoldChunk(size_t chunk, MutableByteSpan bytes, OldUnits* old = nullptr) const;
  // By how much all patches together change a tensor's position-keyed sum.
  uint64_t SumChange(size_t tensor) const { return sum_changes_[tensor]; }
  // Whether a patch has an entry for the tensor.
  bool Names(size_t tensor) const { return named_[tensor]; }

  // The newest change of every file, or header of a shard, that the chain changes.
  struct FileChange {
    const Part* part;
    const FileEntry* entry;
  };
  const std::map<std::string, FileChange>& files() const { return files_; }

 private:
  // A payload for a chunk.
  struct Step {
    const Part* part;
    const ChunkEntry* entry;
  };
  void ApplyStep(size_t chunk, const Step& step, MutableByteSpan bytes, OldUnits* old) const;
  void AddPatch(const Patch& patch);
  void AddTensor(const TensorEntry& entry);
  void AddChunk(const Part* part, const ChunkEntry& entry);
  void AddFile(const Part* part, const FileEntry& entry);
  void CheckPaths() const;

  tensor::VersionTable base_;
  tensor::VersionTable outline_;
  ChunkLayout layout_;
  std::vector<uint64_t> sum_changes_;        // per tensor
  std::vector<bool> named_;                  // per tensor
  std::vector<std::vector<Step>> steps_;     // per chunk, oldest patch first
  std::map<std::string, FileChange> files_;  // by path
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHAIN_H_
