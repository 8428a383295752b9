// A claim on a run that outlives the process.
#ifndef ISTHMUS_PUBLISH_KEPT_WRITER_H_
#define ISTHMUS_PUBLISH_KEPT_WRITER_H_

#include <string>

#include "isthmus/base/file.h"
#include "isthmus/board/board.h"

namespace isthmus::publish {

// Claims the run (Board::OpenWriter): goes on with the claim whose id the file holds if it is still
// the highest, and keeps the id there.
board::Writer OpenKeptWriter(board::Board& board, const std::string& run, const std::string& view,
                             const fs::path& file);

}  // namespace isthmus::publish

#endif  // ISTHMUS_PUBLISH_KEPT_WRITER_H_
