// A store in a bucket of Amazon S3, or of what speaks its protocol.
#ifndef ISTHMUS_STORE_S3_STORE_H_
#define ISTHMUS_STORE_S3_STORE_H_

#include <string>

#include "isthmus/store/environment.h"
#include "isthmus/store/object_reader.h"
#include "isthmus/store/s3_client.h"

namespace isthmus::store {

// Objects are objects, keys are what follows the location's prefix and '/'. Credentials as AWS's
// tools take them (aws_credentials.h), at Google's endpoint HMAC keys by the same ways.
//
// What fails for a time is tried again until options.deadline. Create is decided even if answers
// are lost on the way: each call marks what it makes (metadata), so when a try that repeats another
// finds the key taken, the mark tells whether the earlier one has won. Only if there is no mark
// (the server keeps no metadata, or the object is gone again) is it kUnavailable, and open.
//
// Writing and Fetch keep up to 64 MiB in memory for each caller at a time.
class S3Store final : public Store {
 public:
  // Errors as S3Settings::Resolve. Does not speak to the server yet.
  S3Store(const std::string& location, const StoreOptions& options, const Environment& environment);

  std::string Describe() const override { return client_.Describe(); }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override;
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override;
  std::optional<uint64_t> Size(const std::string& key) override;
  void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
             const TransferProgress& progress) override;
  void Put(const std::string& key, ByteSpan content) override;
  FileDigest PutFile(const std::string& key, const fs::path& path,
                     const TransferProgress& progress) override;
  bool Create(const std::string& key, ByteSpan content) override;
  std::vector<std::string> List(const std::string& prefix) override;
  void Delete(const std::string& key) override;

 private:
  void PutOnce(const std::string& key, ByteSpan content, const Sha256Digest& digest);
  std::vector<std::string> ListPages(const std::string& prefix);

  const std::string prefix_;
  S3Client client_;
  ObjectReader reader_{client_};
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_S3_STORE_H_
