// Adding an uploaded payload to a version.
#ifndef ISTHMUS_UPKEEP_ADDITION_H_
#define ISTHMUS_UPKEEP_ADDITION_H_

#include "isthmus/board/board.h"
#include "isthmus/publish/upload.h"

namespace isthmus::upkeep {

// As board::AddExtra, for a payload whose parts are those of `upload`, which are kept if they
// belong to the version now, or may.
bool AddUploaded(board::Board& board, const board::Manifest& manifest,
                 const board::Payload& payload, publish::Upload* upload);

}  // namespace isthmus::upkeep

#endif  // ISTHMUS_UPKEEP_ADDITION_H_
