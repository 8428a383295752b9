// A chain of patches against the version that it starts from: checked as a whole before the first
// byte is written, then folded chunk by chunk (docs/patch-format.md, section 4).
#ifndef ISTHMUS_CODEC_CHAIN_H_
#define ISTHMUS_CODEC_CHAIN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "isthmus/codec/part.h"
#include "isthmus/tensor/version_table.h"

namespace isthmus::codec {

// The parts of one patch.
using Patch = std::vector<const Part*>;

// Immutable after construction; const methods are thread-safe. The parts must outlive it.
class Chain {
 public:
  // `patches` oldest first, each relative to the one before it, the first to `base`. Checks that
  // every entry names a tensor of the base with its dtype and shape, that digests link up, that
  // chunk ranges of a tensor do not overlap, and that files exist where they must. Throws kCorrupt;
  // for a wrong base the message names both digests.
  Chain(tensor::VersionTable base, const std::vector<Patch>& patches);

  const tensor::VersionTable& base() const { return base_; }
  // What the checkpoint will be: predicted from the patches alone.
  const tensor::VersionTable& result() const { return result_; }

  // Whether a chunk of a tensor (index into base().tensors) has a payload in any patch.
  bool Touches(size_t tensor, uint64_t chunk) const;
  // Turns the chunk's base bytes into the result's.
  void FoldChunk(size_t tensor, uint64_t chunk, MutableByteSpan bytes) const;

  // The newest change of every file, or header of a shard, that the chain changes.
  struct FileChange {
    const Part* part;
    const FileEntry* entry;
  };
  const std::map<std::string, FileChange>& files() const { return files_; }

 private:
  struct Range {
    const Part* part;
    const TensorEntry* entry;
  };
  void AddPatch(const Patch& patch);
  void AddTensor(const Part* part, const TensorEntry& entry,
                 std::map<size_t, std::vector<Range>>* ranges) const;
  void LinkTensor(size_t tensor, std::vector<Range> ranges);
  void AddFile(const Part* part, const FileEntry& entry);
  void CheckPaths() const;

  tensor::VersionTable base_;
  tensor::VersionTable result_;
  std::vector<std::vector<Range>> steps_;    // per tensor, oldest patch first
  std::map<std::string, FileChange> files_;  // by path
};

}  // namespace isthmus::codec

#endif  // ISTHMUS_CODEC_CHAIN_H_
