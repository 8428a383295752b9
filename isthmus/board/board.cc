#include "isthmus/board/board.h"

#include <algorithm>
#include <set>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/board/keys.h"
#include "isthmus/board/small_object.h"

namespace isthmus::board {
namespace {

namespace json = boost::json;

using store::CheckKey;
using store::Store;

constexpr char kBoardKey[] = "board.json";
constexpr uint64_t kMaxEpoch = 999'999;
constexpr size_t kMaxReasonBytes = 1000;

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

// What would not read back is refused here: once stored, it would stand for ever.
void CheckEntry(const Writer& writer, const Manifest& manifest, const std::string& text) {
  if (manifest.run != writer.run || manifest.epoch != writer.epoch) {
    Throw(ErrorCode::kInternal, "manifest of run {} epoch {}, but the writer is run {} epoch {}",
          manifest.run, manifest.epoch, writer.run, writer.epoch);
  }
  try {
    Manifest::Parse(text);
  } catch (const Error& error) {
    Throw(ErrorCode::kInvalid, "the manifest breaks a rule: {}", error.what());
  }
}

// Probing for the head goes from number to number and would never find an entry behind a gap.
void CheckNoGap(const Board& board, const Manifest& manifest) {
  if (manifest.version == 1 || board.Exists(manifest.run, manifest.version - 1)) return;
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

Board Board::Open(std::unique_ptr<Store> store, Trust trust) {
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
  return {std::move(store), std::move(*uuid), std::move(trust)};
}

std::vector<std::string> Board::KeysToFollow(const std::string& run, VersionNumber held) {
  CheckRunName(run);
  std::vector<std::string> keys = {kBoardKey, HintKey(run)};
  for (const VersionNumber version : {held, held + 1}) {
    keys.push_back(LogKey(run, version));
    keys.push_back(RevokedKey(run, version));
  }
  keys.push_back(LogKey(run, held + 2));  // not there: so the one before is the newest
  return keys;
}

bool Board::Exists(const std::string& run, VersionNumber version) const {
  CheckRunName(run);
  return version != kNoVersion && version <= kMaxVersion &&
         store_->Size(LogKey(run, version)).has_value();
}

std::string Board::Signed(const std::string& key, const std::string& text) const {
  return trust_.signer ? SignText(*trust_.signer, {uuid_, key}, text) : text;
}

std::optional<std::string> Board::ReadChecked(const std::string& key) const {
  std::optional<std::string> text = store_->Get(key, kMaxManifestBytes);
  if (!text || trust_.trusted.empty()) return text;
  try {
    CheckSignature(trust_.trusted, {uuid_, key}, *text);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("read {} in {}", key, store_->Describe()));
  }
  return text;
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
  if (head == kNoVersion || !Exists(run, head)) {
    head = HighestNumber(*store_, LogPrefix(run), kVersionDigits);
  }
  while (Exists(run, head + 1)) ++head;
  return head;
}

std::optional<Manifest> Board::Read(const std::string& run, VersionNumber version) const {
  CheckRunName(run);
  if (version == kNoVersion || version > kMaxVersion) return std::nullopt;
  const std::string key = LogKey(run, version);
  if (auto manifest = recent_->Find(key)) return manifest;
  const std::optional<std::string> text = ReadChecked(key);
  if (!text) return std::nullopt;
  try {
    Manifest manifest = Manifest::Parse(*text);
    if (manifest.run != run || manifest.version != version) {
      Throw(ErrorCode::kCorrupt, "the entry is of run {} version {}", manifest.run,
            manifest.version);
    }
    recent_->Keep(key, manifest);
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
    const std::string key = LogKey(manifest.run, manifest.version);
    const std::string text = Signed(key, manifest.Serialize());
    CheckEntry(writer, manifest, text);
    CheckWriter(writer);
    CheckNoGap(*this, manifest);
    CreateEntry(*store_, key, text);
    // A reader that wants signatures sees its own entries as all others.
    if (trust_.trusted.empty()) recent_->Keep(key, Manifest::Parse(text));
  } catch (const Error& error) {
    throw error.Annotated(
        fmt::format("commit version {} of run {}", manifest.version, manifest.run));
  }
  WriteHint(*store_, manifest.run, manifest.version);
}

void Board::Revoke(const std::string& run, VersionNumber version, const std::string& reason) {
  CheckRunName(run);
  if (!Exists(run, version)) {
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
