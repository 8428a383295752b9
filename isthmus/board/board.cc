#include "isthmus/board/board.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <set>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/board/json_fields.h"

namespace isthmus::board {
namespace {

namespace json = boost::json;

using store::CheckKey;
using store::Store;

constexpr char kBoardKey[] = "board.json";
// For every object here but manifests: they hold a handful of short fields.
constexpr uint64_t kMaxSmallBytes = 64 << 10;
// Decimal digits in the keys of log entries and of writers.
constexpr size_t kVersionDigits = 10;
constexpr size_t kEpochDigits = 6;
constexpr uint64_t kMaxEpoch = 999'999;
constexpr size_t kMaxReasonBytes = 1000;

std::string RunPrefix(const std::string& run) { return fmt::format("runs/{}/", run); }
std::string RunKey(const std::string& run) { return RunPrefix(run) + "run.json"; }
std::string HintKey(const std::string& run) { return RunPrefix(run) + "head.json"; }
std::string LogPrefix(const std::string& run) { return RunPrefix(run) + "log/"; }
std::string LogKey(const std::string& run, VersionNumber version) {
  return fmt::format("{}{:0{}}.json", LogPrefix(run), version, kVersionDigits);
}
std::string WritersPrefix(const std::string& run) { return RunPrefix(run) + "writers/"; }
std::string WriterKey(const std::string& run, uint64_t epoch) {
  return fmt::format("{}{:0{}}.json", WritersPrefix(run), epoch, kEpochDigits);
}
std::string RevokedPrefix(const std::string& run) { return RunPrefix(run) + "revoked/"; }
std::string RevokedKey(const std::string& run, VersionNumber version) {
  return fmt::format("{}{:0{}}.json", RevokedPrefix(run), version, kVersionDigits);
}

// The number in "<prefix><digits>.json", nullopt for other keys and for 0.
std::optional<uint64_t> NumberIn(std::string_view key, std::string_view prefix, size_t digits) {
  constexpr std::string_view kSuffix = ".json";
  if (key.size() != prefix.size() + digits + kSuffix.size() || !key.starts_with(prefix) ||
      !key.ends_with(kSuffix)) {
    return std::nullopt;
  }
  uint64_t number = 0;
  const char* const begin = key.data() + prefix.size();
  const auto [end, error] = std::from_chars(begin, begin + digits, number);
  if (error != std::errc() || end != begin + digits || number == 0) return std::nullopt;
  return number;
}

// The highest number among such keys, 0 if there is none.
uint64_t HighestNumber(Store& store, const std::string& prefix, size_t digits) {
  uint64_t highest = 0;
  for (const std::string& key : store.List(prefix)) {
    highest = std::max(highest, NumberIn(key, prefix, digits).value_or(0));
  }
  return highest;
}

uint64_t HighestEpoch(Store& store, const std::string& run) {
  return HighestNumber(store, WritersPrefix(run), kEpochDigits);
}

std::string ToText(const json::object& object) { return json::serialize(object) + "\n"; }

// Calls `read` with the fields of a small object; its errors name the object. nullopt if missing.
template <typename Read>
auto ReadSmall(Store& store, const std::string& key, Read read)
    -> std::optional<decltype(read(std::declval<const JsonFields&>()))> {
  const std::optional<std::string> text = store.Get(key, kMaxSmallBytes);
  if (!text) return std::nullopt;
  try {
    const json::value document = ParseJson(*text);
    const JsonFields fields(document, "");
    fields.CheckFormat();
    return read(fields);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {} in {}", key, store.Describe()));
  }
}

// The hinted version, kNoVersion if there is no usable hint: nothing depends on the hint, so
// whatever is wrong with it only costs the listing that it would have saved.
VersionNumber ReadHint(Store& store, const std::string& run) {
  try {
    return ReadSmall(
               store, HintKey(run),
               [](const JsonFields& fields) { return fields.Count("version", 1, kMaxVersion); })
        .value_or(kNoVersion);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kInvalid) {
      return kNoVersion;
    }
    throw;
  }
}

void WriteHint(Store& store, const std::string& run, VersionNumber version) {
  try {
    const json::object hint = {{"format", kBoardFormat}, {"version", version}};
    store.Put(HintKey(run), AsBytes(ToText(hint)));
  } catch (const std::exception&) {
    // The version is committed; a reader probes its way to it from an older hint.
  }
}

bool Exists(Store& store, const std::string& run, VersionNumber version) {
  return version <= kMaxVersion && store.Size(LogKey(run, version)).has_value();
}

void EnsureRun(Store& store, const std::string& run, const std::string& view) {
  if (store.Size(RunKey(run))) return;
  const json::object object = {{"format", kBoardFormat},
                               {"run", run},
                               {"view", {{"id", view}}},
                               {"created_at", FormatTime(SystemClock().Now())}};
  store.Create(RunKey(run), AsBytes(ToText(object)));  // false: another session was faster
}

std::optional<std::string> WriterId(Store& store, const std::string& run, uint64_t epoch) {
  return ReadSmall(store, WriterKey(run, epoch),
                   [](const JsonFields& fields) { return fields.Text("id"); });
}

bool CreateWriter(Store& store, const Writer& writer) {
  const json::object object = {{"format", kBoardFormat},
                               {"run", writer.run},
                               {"epoch", writer.epoch},
                               {"id", writer.id},
                               {"opened_at", FormatTime(SystemClock().Now())}};
  return store.Create(WriterKey(writer.run, writer.epoch), AsBytes(ToText(object)));
}

// The entry's text. What would not read back is refused here: once stored, it would stand for ever.
std::string EntryText(const Writer& writer, const Manifest& manifest) {
  if (manifest.run != writer.run || manifest.epoch != writer.epoch) {
    Throw(ErrorCode::kInternal, "manifest of run {} epoch {}, but the writer is run {} epoch {}",
          manifest.run, manifest.epoch, writer.run, writer.epoch);
  }
  std::string text = manifest.Serialize();
  try {
    Manifest::Parse(text);
  } catch (const Error& error) {
    Throw(ErrorCode::kInvalid, "the manifest breaks a rule: {}", error.what());
  }
  return text;
}

// Probing for the head goes from number to number and would never find an entry behind a gap.
void CheckNoGap(Store& store, const Manifest& manifest) {
  if (manifest.version == 1 || Exists(store, manifest.run, manifest.version - 1)) return;
  Throw(ErrorCode::kInvalid, "version {} does not exist, so {} cannot follow it",
        manifest.version - 1, manifest.version);
}

std::optional<std::string> ReadBack(Store& store, const std::string& key) {
  try {
    return store.Get(key, kMaxManifestBytes);
  } catch (const Error& error) {
    throw Error(ErrorCode::kUnavailable, error.what());
  }
}

// Creates the entry. A taken name, or an error, is decided by what the log holds: our own text
// there is this very commit, made by a try whose answer got lost. Of the errors from here on,
// kConflict says that the entry was not stored; every other one is kUnavailable and leaves it open.
void CreateEntry(Store& store, const std::string& key, const std::string& text) {
  std::optional<Error> failure;
  try {
    if (store.Create(key, AsBytes(text))) return;
  } catch (const Error& error) {
    failure = Error(ErrorCode::kUnavailable, error.what());
  }
  const std::optional<std::string> stored = ReadBack(store, key);
  if (stored == text) return;
  if (!stored && failure) throw Error(*failure);
  Throw(ErrorCode::kConflict, "another publisher committed this version first");
}

}  // namespace

void Board::Init(Store& store) {
  if (!store.Size(kBoardKey) && !store.List("").empty()) {
    Throw(ErrorCode::kInvalid, "create a board in {}: it holds other files, name an empty place",
          store.Describe());
  }
  store::CheckCreateIsConditional(store);
  const json::object board = {{"format", kBoardFormat}, {"board", RandomUuid()}};
  if (store.Create(kBoardKey, AsBytes(ToText(board)))) return;
  Throw(ErrorCode::kConflict, "create a board in {}: it holds one already", store.Describe());
}

Board Board::Open(std::unique_ptr<Store> store) {
  std::optional<std::string> uuid = ReadSmall(*store, kBoardKey, [](const JsonFields& fields) {
    std::string id = fields.Text("board");
    if (id.empty()) fields.Refuse("board", "empty");
    return id;
  });
  if (!uuid) {
    Throw(ErrorCode::kNotFound,
          "open the board in {}: there is none (\"isthmus board init\" makes one)",
          store->Describe());
  }
  return {std::move(store), std::move(*uuid)};
}

std::vector<std::string> Board::Runs() const {
  constexpr std::string_view kRuns = "runs/";
  std::set<std::string> runs;
  for (const std::string& key : store_->List(std::string(kRuns))) {
    const std::string run = key.substr(kRuns.size(), key.find('/', kRuns.size()) - kRuns.size());
    if (key == RunKey(run) || NumberIn(key, LogPrefix(run), kVersionDigits)) runs.insert(run);
  }
  return {runs.begin(), runs.end()};
}

VersionNumber Board::Head(const std::string& run) const {
  CheckRunName(run);
  VersionNumber head = ReadHint(*store_, run);
  if (head == kNoVersion || !Exists(*store_, run, head)) {
    head = HighestNumber(*store_, LogPrefix(run), kVersionDigits);
  }
  while (Exists(*store_, run, head + 1)) ++head;
  return head;
}

std::optional<Manifest> Board::Read(const std::string& run, VersionNumber version) const {
  CheckRunName(run);
  if (version == kNoVersion || version > kMaxVersion) return std::nullopt;
  const std::string key = LogKey(run, version);
  const std::optional<std::string> text = store_->Get(key, kMaxManifestBytes);
  if (!text) return std::nullopt;
  try {
    Manifest manifest = Manifest::Parse(*text);
    if (manifest.run != run || manifest.version != version) {
      Throw(ErrorCode::kCorrupt, "the entry is of run {} version {}", manifest.run,
            manifest.version);
    }
    return manifest;
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {} in {}", key, store_->Describe()));
  }
}

Writer Board::OpenWriter(const std::string& run, const std::string& view,
                         const std::string& previous_id) {
  CheckRunName(run);
  EnsureRun(*store_, run, view);
  const uint64_t highest = HighestEpoch(*store_, run);
  if (highest > 0 && !previous_id.empty() && WriterId(*store_, run, highest) == previous_id) {
    return {run, highest, previous_id};
  }
  // Another session may take the same epoch meanwhile: one of the two gets it.
  for (Writer writer{run, highest + 1, RandomId()}; writer.epoch <= kMaxEpoch; ++writer.epoch) {
    if (CreateWriter(*store_, writer)) return writer;
  }
  Throw(ErrorCode::kInvalid, "open run {} for writing: epoch {} is taken, and it is the last", run,
        kMaxEpoch);
}

void Board::CheckWriter(const Writer& writer) const {
  // Epochs are taken one after another, so a higher one exists only if the next one does.
  if (writer.epoch >= kMaxEpoch || !store_->Size(WriterKey(writer.run, writer.epoch + 1))) return;
  Throw(ErrorCode::kConflict,
        "write run {}: another publisher took it over, epoch {} is no longer the highest",
        writer.run, writer.epoch);
}

std::string Board::PartKey(const std::string& run, VersionNumber version,
                           const std::string& attempt, const std::string& part) {
  CheckRunName(run);
  std::string key = fmt::format("{}data/{}/{}/{}", RunPrefix(run), version, attempt, part);
  CheckKey(key);
  return key;
}

void Board::Commit(const Writer& writer, const Manifest& manifest) {
  try {
    const std::string text = EntryText(writer, manifest);
    CheckWriter(writer);
    CheckNoGap(*store_, manifest);
    CreateEntry(*store_, LogKey(manifest.run, manifest.version), text);
  } catch (const Error& error) {
    throw error.Annotated(
        fmt::format("commit version {} of run {}", manifest.version, manifest.run));
  }
  WriteHint(*store_, manifest.run, manifest.version);
}

void Board::Revoke(const std::string& run, VersionNumber version, const std::string& reason) {
  CheckRunName(run);
  if (version == kNoVersion || !Exists(*store_, run, version)) {
    Throw(ErrorCode::kNotFound, "revoke version {} of run {} in {}: no such version", version, run,
          store_->Describe());
  }
  if (reason.size() > kMaxReasonBytes || reason.find('\n') != std::string::npos) {
    Throw(ErrorCode::kInvalid,
          "revoke version {} of run {}: the reason has {} bytes{}, allowed: {} in one line",
          version, run, reason.size(),
          reason.find('\n') != std::string::npos ? " in several lines" : "", kMaxReasonBytes);
  }
  const json::object object = {{"format", kBoardFormat},
                               {"run", run},
                               {"version", version},
                               {"reason", reason},
                               {"revoked_at", FormatTime(SystemClock().Now())}};
  store_->Create(RevokedKey(run, version), AsBytes(ToText(object)));  // false: already revoked
}

std::vector<VersionNumber> Board::Revoked(const std::string& run) const {
  CheckRunName(run);
  const std::string prefix = RevokedPrefix(run);
  std::vector<VersionNumber> versions;
  for (const std::string& key : store_->List(prefix)) {
    if (const auto version = NumberIn(key, prefix, kVersionDigits)) versions.push_back(*version);
  }
  return versions;
}

VersionNumber Board::Newest(const std::string& run) const {
  VersionNumber newest = Head(run);
  while (newest != kNoVersion && store_->Size(RevokedKey(run, newest))) --newest;
  return newest;
}

}  // namespace isthmus::board
