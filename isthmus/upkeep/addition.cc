#include "isthmus/upkeep/addition.h"

#include "isthmus/base/error.h"
#include "isthmus/board/extra.h"

namespace isthmus::upkeep {

bool AddUploaded(board::Board& board, const board::Manifest& manifest,
                 const board::Payload& payload, publish::Upload* upload) {
  try {
    const bool added = board::AddExtra(board, manifest, payload);
    if (added) upload->Keep();
    return added;
  } catch (const Error& error) {
    // It may have been stored all the same.
    if (error.code() == ErrorCode::kUnavailable) upload->Keep();
    throw;
  }
}

}  // namespace isthmus::upkeep
