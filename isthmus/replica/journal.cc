#include "isthmus/replica/journal.h"

#include <boost/json.hpp>

#include "isthmus/base/error.h"

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

std::optional<JournalEntry> Journal::Pending(const ControlPaths& paths) try {
  if (!Exists(paths.journal())) return std::nullopt;
  const json::value parsed = json::parse(ReadFile(paths.journal(), kMaxJournalBytes));
  const json::object& object = parsed.as_object();
  return JournalEntry{ParseSha256(std::string_view(object.at("from").as_string())),
                      ParseSha256(std::string_view(object.at("to").as_string()))};
} catch (const Error&) {
  throw;
} catch (const std::exception& error) {  // Boost.JSON: malformed, missing key, wrong type
  Throw(ErrorCode::kCorrupt, "read {}: {}", paths.journal().string(), error.what());
}

void Journal::TakeBack(const ControlPaths& paths, const fs::path& directory) {
  UndoLog::Replay(paths.undo(), directory);
}

void Journal::Discard(const ControlPaths& paths) {
  RemoveFile(paths.journal());
  RemoveFile(paths.undo());
}

}  // namespace isthmus::replica
