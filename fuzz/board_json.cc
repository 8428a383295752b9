// The objects of a board that are not manifests: one text stands as each of them in a store, and
// everything that reads them is called.
#include <map>

#include "fuzz/fuzz.h"
#include "isthmus/board/board.h"

namespace isthmus::fuzz {
namespace {

using board::Board;
using Objects = std::map<std::string, std::string>;

// Objects in memory.
class MemoryStore : public store::Store {
 public:
  explicit MemoryStore(Objects objects) : objects_(std::move(objects)) {}

  std::string Describe() const override { return "memory"; }
  std::optional<std::string> Get(const std::string& key, uint64_t max_bytes) override {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return std::nullopt;
    if (found->second.size() > max_bytes) Throw(ErrorCode::kCorrupt, "get {}: too large", key);
    return found->second;
  }
  std::string GetRange(const std::string& key, uint64_t /*offset*/, uint64_t /*length*/) override {
    NotUsed(key);
  }
  std::optional<uint64_t> Size(const std::string& key) override {
    const auto found = objects_.find(key);
    if (found == objects_.end()) return std::nullopt;
    return found->second.size();
  }
  void Fetch(const std::string& key, const fs::path& /*file*/, uint64_t /*max_bytes*/,
             const store::TransferProgress& /*progress*/) override {
    NotUsed(key);
  }
  void Put(const std::string& key, ByteSpan content) override { objects_[key] = AsText(content); }
  FileDigest PutFile(const std::string& key, const fs::path& /*file*/,
                     const store::TransferProgress& /*progress*/) override {
    NotUsed(key);
  }
  bool Create(const std::string& key, ByteSpan content) override {
    return objects_.try_emplace(key, AsText(content)).second;
  }
  std::vector<std::string> List(const std::string& prefix) override {
    std::vector<std::string> keys;
    for (const auto& [key, content] : objects_) {
      if (key.starts_with(prefix)) keys.push_back(key);
    }
    return keys;
  }
  void Delete(const std::string& key) override { objects_.erase(key); }

 private:
  [[noreturn]] static void NotUsed(const std::string& key) {
    Throw(ErrorCode::kInternal, "{}: a board reads no object so", key);
  }

  Objects objects_;
};

Board Open(Objects objects) {
  return Board::Open(std::make_unique<MemoryStore>(std::move(objects)));
}

void FuzzBoard(const std::string& text) {
  SucceedsOrIsNewer([&] { Open({{"board.json", text}}); });

  const std::string uuid = "00000000-0000-4000-8000-000000000000";
  Board board = Open({{"board.json", "{\"format\":1,\"board\":\"" + uuid + "\"}"},
                      {"runs/r/run.json", text},
                      {"runs/r/head.json", text},
                      {"runs/r/writers/000001.json", text},
                      {"runs/r/log/0000000001.json", text}});
  Require(board.Runs() == std::vector<std::string>{"r"}, "a board has another run");
  Require(board.Head("r") == 1, "a hint leads to another head");
  SucceedsOrIsNewer([&] { board.Read("r", 1); });
  SucceedsOrIsNewer([&] { board.CheckWriter(board.OpenWriter("r", "bf16", "previous")); });
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzBoard(std::string(isthmus::fuzz::TextOf(data, size)));
  return 0;
}
