// A board that a web server offers: read-only.
#ifndef ISTHMUS_STORE_HTTP_STORE_H_
#define ISTHMUS_STORE_HTTP_STORE_H_

#include <mutex>
#include <string>

#include "isthmus/store/http_url.h"
#include "isthmus/store/object_reader.h"

namespace isthmus::store {

// An object is what GET LOCATION/KEY answers: from `isthmus board serve`, or any server of plain
// files. Redirects are followed, but one that only adds a '/' is a folder, and no object.
//
// HTTP has no listing. List asks GET LOCATION/?list=PREFIX, which `isthmus board serve` answers
// with
// {"keys":["…",…]}: all keys that begin with PREFIX. A server that answers anything else is
// kUnavailable, with the reason.
//
// What writes is kInvalid.
class HttpStore final : public Store, private ObjectServer {
 public:
  // Errors as HttpUrl::Parse; of the token file as ReadFile, kInvalid if it is not one line.
  HttpStore(const std::string& location, const StoreOptions& options);

  std::string Describe() const override { return base_; }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override;
  std::string GetRange(const std::string& key, uint64_t offset, uint64_t length) override;
  std::optional<uint64_t> Size(const std::string& key) override;
  void Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
             const TransferProgress& progress) override;
  void Put(const std::string& key, ByteSpan content) override;
  FileDigest PutFile(const std::string& key, const fs::path& file,
                     const TransferProgress& progress) override;
  bool Create(const std::string& key, ByteSpan content) override;
  std::vector<std::string> List(const std::string& prefix) override;
  void Delete(const std::string& key) override;

 private:
  HttpAnswer Read(const ReadRequest& request) override;
  HttpAnswer Ask(HttpRequest request, uint64_t transfer_bytes);
  [[noreturn]] void RefuseToWrite(const std::string& key) const;
  std::string Token() const;
  bool RenewToken(const std::string& refused);

  const std::string base_;
  const StoreOptions options_;
  HttpTransport transport_;
  mutable std::mutex mutex_;
  std::string token_;
  ObjectReader reader_{*this};
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_HTTP_STORE_H_
