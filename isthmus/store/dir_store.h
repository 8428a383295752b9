// A store in a directory of a local or shared file system.
#ifndef ISTHMUS_STORE_DIR_STORE_H_
#define ISTHMUS_STORE_DIR_STORE_H_

#include <mutex>
#include <set>

#include "isthmus/store/store.h"

namespace isthmus::store {

// Objects are files; keys are paths below the root. The root need not exist before the first write.
class DirStore final : public Store {
 public:
  explicit DirStore(fs::path root) : root_(std::move(root)) {}

  std::string Describe() const override { return root_.string(); }
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
  fs::path PathOf(const std::string& key) const;
  // PathOf, with the parent directory made, durably.
  fs::path PathForWriting(const std::string& key);
  void SyncWayTo(const fs::path& directory);

  fs::path root_;
  std::mutex mutex_;
  std::set<fs::path> synced_;  // directories whose way from the root is durable
};

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_DIR_STORE_H_
