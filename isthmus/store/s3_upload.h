// Large objects for S3: in parts, several at a time.
#ifndef ISTHMUS_STORE_S3_UPLOAD_H_
#define ISTHMUS_STORE_S3_UPLOAD_H_

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "isthmus/base/file.h"
#include "isthmus/store/s3_client.h"
#include "isthmus/store/store.h"

namespace isthmus::store {

// Objects above this size go in parts.
inline constexpr uint64_t kLargestSinglePut = uint64_t{64} << 20;

// Metadata of an object that says which call made it, so that a call whose answer was lost can be
// told from another one.
inline constexpr char kCallMark[] = "meta-isthmus-call";
enum class Maker { kThisCall, kAnother, kUnknown };
// Who made the object that is there now; kUnknown if it bears no mark, is not there, or the server
// does not answer.
Maker MakerOf(S3Client& client, const std::string& key, const std::string& call);

// One multipart upload: begun by the constructor, and taken back by the destructor unless Complete
// returned. Errors as S3Client::Send.
class S3Upload {
 public:
  S3Upload(S3Client& client, std::string key);
  ~S3Upload();
  S3Upload(const S3Upload&) = delete;
  S3Upload& operator=(const S3Upload&) = delete;

  // Numbers from 1 to 10,000. Thread-safe.
  void AddPart(int number, ByteSpan bytes);
  // The object exists, of the parts in the order of their numbers, when this returns.
  void Complete();

 private:
  S3Client& client_;
  std::string key_;
  std::string call_;
  std::string id_;
  std::mutex mutex_;
  std::map<int, std::string> etags_;
  uint64_t bytes_ = 0;
  bool completed_ = false;
};

// Gives bytes [offset, offset + buffer.size()) of the content, in `buffer` or elsewhere; called in
// ascending order by one thread at a time.
using ReadContent = std::function<ByteSpan(uint64_t offset, MutableByteSpan buffer)>;

// Stores `bytes` bytes, more than none, in parts of 16 MiB or more, four at a time. Returns the
// digest of what was sent. `progress` is called by one thread at a time.
FileDigest UploadInParts(S3Client& client, const std::string& key, uint64_t bytes,
                         const ReadContent& read, const TransferProgress& progress);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_S3_UPLOAD_H_
