#include "isthmus/replica/journal.h"

#include <boost/json.hpp>

#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::replica {
namespace {

namespace json = boost::json;

constexpr uint64_t kMaxJournalBytes = 1 << 16;

}  // namespace

Journal::Journal(const ControlPaths& paths, const JournalEntry& entry)
    : paths_(paths), undo_(paths.undo()) {
  const json::object text = {
      {"format", 1}, {"from", FormatSha256(entry.from)}, {"to", FormatSha256(entry.to)}};
  WriteFileAtomic(paths_.journal(), AsBytes(json::serialize(text)));
}

void Journal::Finish() { Discard(paths_); }

std::optional<JournalEntry> Journal::Pending(const ControlPaths& paths) {
  if (!Exists(paths.journal())) return std::nullopt;
  try {
    const json::value parsed = board::ParseJson(ReadFile(paths.journal(), kMaxJournalBytes));
    const board::JsonFields fields(parsed, "");
    return JournalEntry{fields.Digest("from"), fields.Digest("to")};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCorrupt) throw;
    return JournalEntry{};
  }
}

void Journal::TakeBack(const ControlPaths& paths, const fs::path& directory) {
  UndoLog::Replay(paths.undo(), directory);
}

void Journal::Discard(const ControlPaths& paths) {
  RemoveFile(paths.journal());
  // Durable before the log goes: else a power loss could leave a journal without its log.
  SyncDirectory(paths.root);
  RemoveFile(paths.undo());
}

}  // namespace isthmus::replica
