// What one rank of a trainer holds of a model (docs/ranks.md, "A share").
#ifndef ISTHMUS_RANKS_SHARE_H_
#define ISTHMUS_RANKS_SHARE_H_

#include <map>
#include <string>
#include <vector>

#include "isthmus/base/mapped_file.h"
#include "isthmus/tensor/safetensors.h"

namespace isthmus::ranks {

// Rows [first_row, first_row + rows) of a tensor's first dimension. A tensor without dimensions has
// one row.
struct HeldRows {
  std::string name;
  tensor::Dtype dtype = tensor::Dtype::kU8;
  tensor::Shape shape;  // of the whole tensor
  uint64_t first_row = 0;
  uint64_t rows = 0;

  bool operator==(const HeldRows&) const = default;
};

struct ShareTensor {
  HeldRows held;
  ByteSpan bytes;  // of these rows, in C order; whoever made this keeps them alive and unchanged
};

// A share in files: every *.safetensors file of a directory, mapped. Immutable.
class ShareDirectory {
 public:
  // kNotFound if the directory or every file is missing, kCorrupt if a file is malformed, or its
  // rows contradict its tensors. Messages name the file.
  static ShareDirectory Open(const fs::path& directory);

  const fs::path& directory() const { return directory_; }
  // Views into the mapped files: valid as long as this object.
  const std::vector<ShareTensor>& tensors() const { return tensors_; }

  // kConflict if a file changed size or modification time since Open: somebody is writing it.
  // kCorrupt, kUnavailable if a page of a file was lost.
  void CheckUnchanged() const;

 private:
  struct Stamp {
    uint64_t bytes = 0;
    fs::file_time_type modified;
    bool operator==(const Stamp&) const = default;
  };
  static Stamp StampOf(const fs::path& file);
  void AddFile(const fs::path& file);

  fs::path directory_;
  std::vector<MappedFile> files_;
  std::map<fs::path, Stamp> stamps_;
  std::vector<ShareTensor> tensors_;
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_SHARE_H_
