#include "isthmus/publish/kept_writer.h"

#include "isthmus/base/error.h"

namespace isthmus::publish {
namespace {

constexpr uint64_t kMaxWriterIdBytes = 256;

// Empty if there is none, or no readable one: it only saves an epoch.
std::string ReadWriterId(const fs::path& path) {
  try {
    return ReadFile(path, kMaxWriterIdBytes);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return {};
  }
}

}  // namespace

board::Writer OpenKeptWriter(board::Board& board, const std::string& run, const std::string& view,
                             const fs::path& file) {
  board::Writer writer = board.OpenWriter(run, view, ReadWriterId(file));
  WriteFileAtomic(file, AsBytes(writer.id));
  return writer;
}

}  // namespace isthmus::publish
