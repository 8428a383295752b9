// The payload objects of one attempt to publish a version.
#ifndef ISTHMUS_PUBLISH_UPLOAD_H_
#define ISTHMUS_PUBLISH_UPLOAD_H_

#include <string>
#include <vector>

#include "isthmus/base/thread_pool.h"
#include "isthmus/board/board.h"
#include "isthmus/codec/part.h"
#include "isthmus/tensor/checkpoint.h"

namespace isthmus::publish {

// Every object that it stored is durable. Unless Keep was called, the destructor deletes them
// again, as well as it can: an attempt that failed leaves nothing behind, and one that was killed
// only unreferenced objects under its own name.
class Upload {
 public:
  Upload(board::Board& board, std::string run, board::VersionNumber version);
  ~Upload();
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  // Stores a finished part, if it has any content.
  void AddPart(codec::PartBuilder* builder);
  // Stores all files of a checkpoint, in parallel.
  void AddCheckpoint(const tensor::Checkpoint& checkpoint, ThreadPool& pool, Progress& progress);

  const std::vector<board::PayloadPart>& parts() const { return parts_; }
  // The objects belong to a version now, or may.
  void Keep() { keep_ = true; }
  // They do not after all.
  void Drop() { keep_ = false; }

 private:
  std::string KeyFor(size_t index, const std::string& name) const;

  board::Board& board_;
  std::string run_;
  board::VersionNumber version_;
  std::string attempt_;
  std::vector<board::PayloadPart> parts_;
  bool keep_ = false;
};

}  // namespace isthmus::publish

#endif  // ISTHMUS_PUBLISH_UPLOAD_H_
