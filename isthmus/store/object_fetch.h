// Copying an object of a server into a local file.
#ifndef ISTHMUS_STORE_OBJECT_FETCH_H_
#define ISTHMUS_STORE_OBJECT_FETCH_H_

#include <atomic>
#include <string>

#include "isthmus/store/object_server.h"
#include "isthmus/store/store.h"

namespace isthmus::store {

struct ObjectFetch {
  const std::string& key;
  const fs::path& file;
  uint64_t max_bytes;
  const TransferProgress& progress;  // called by one thread at a time
};

// As Store::Fetch; into a temporary file beside `file`, renamed at the end. An object comes in
// ranges, eight at a time, bound to one state of the object by its ETag; one that is replaced
// meanwhile is begun anew, three times at most (kUnavailable). All ranges are asked for at once if
// the object has max_bytes; otherwise the first one, of 16 MiB, says how much there is.
// `knows_no_ranges` is what earlier fetches found out about the server.
void FetchObject(ObjectServer& server, const ObjectFetch& fetch,
                 std::atomic<bool>* knows_no_ranges);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_OBJECT_FETCH_H_
