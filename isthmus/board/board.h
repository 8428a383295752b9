// The board: an append-only log of versions and their payloads in a store. Normative description
// of the layout and the protocol: docs/board.md.
#ifndef ISTHMUS_BOARD_BOARD_H_
#define ISTHMUS_BOARD_BOARD_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/board/manifest.h"
#include "isthmus/board/recent_entries.h"
#include "isthmus/board/signed_text.h"
#include "isthmus/store/store.h"

namespace isthmus::board {

// A publisher's claim on a run. The highest epoch owns the run.
struct Writer {
  std::string run;
  uint64_t epoch = 0;
  std::string id;  // unique; a session that finds its own id at the top resumes its epoch
};

// An open board. Thread-safe, as its store is.
class Board {
 public:
  // Creates board.json; kConflict if the store holds a board already, kInvalid if it holds anything
  // else or does not keep the promise of Create (store::CheckCreateIsConditional).
  static void Init(store::Store& store);
  // kNotFound if there is no board ("isthmus board init" makes one), kInvalid if its format is
  // newer, kCorrupt if board.json is malformed. With trusted keys, Read refuses what none of them
  // signed; with a signer, Commit signs.
  static Board Open(std::unique_ptr<store::Store> store, Trust trust = {});
  // What Open, Newest and reading the log ask for on behalf of who holds a version of the run,
  // if the newest one is this or the next: for a store that reads ahead.
  static std::vector<std::string> KeysToFollow(const std::string& run, VersionNumber held);

  const std::string& uuid() const { return uuid_; }
  store::Store& store() const { return *store_; }

  // Runs that have a log entry or a run.json, sorted.
  std::vector<std::string> Runs() const;

  // The newest version, kNoVersion if there is none. Begins at head.json, a hint that may be
  // stale, missing or malformed, and probes forward from there; a hint that is ahead of the log is
  // ignored.
  VersionNumber Head(const std::string& run) const;
  bool Exists(const std::string& run, VersionNumber version) const;
  // nullopt if the version does not exist. Checks that the entry's run and version are those of
  // its key, and the signature if there are trusted keys. One that this object has just read, or
  // committed, is not asked for again.
  std::optional<Manifest> Read(const std::string& run, VersionNumber version) const;

  // For objects that are signed: `text` as it is to be stored under `key`; and what is stored
  // there, at most kMaxManifestBytes, after its signature was checked (kCorrupt). nullopt if
  // missing.
  std::string Signed(const std::string& key, const std::string& text) const;
  std::optional<std::string> ReadChecked(const std::string& key) const;

  // Claims the run: creates run.json if absent and a writer entry above all others. If
  // `previous_id` is the highest epoch's id, that claim is returned again instead.
  Writer OpenWriter(const std::string& run, const std::string& view,
                    const std::string& previous_id = "");
  // Throws kConflict if another writer holds a higher epoch.
  void CheckWriter(const Writer& writer) const;

  // The key for a payload object of an attempt; `attempt` is any RandomId().
  static std::string PartKey(const std::string& run, VersionNumber version,
                             const std::string& attempt, const std::string& part);

  // THE COMMIT POINT. Everything that the manifest names must be durable before. Checks the writer,
  // creates log/<version> and then writes the head hint (whose failure is ignored: the version
  // exists). kConflict if somebody else committed this number or owns the run. If creating fails
  // with kUnavailable, the log is read back: had the entry been stored, this is success.
  void Commit(const Writer& writer, const Manifest& manifest);

  // Withdraws a version for good: islands that serve it leave it, and none goes to it any more. Its
  // log entry and payloads stay, for later versions may build on them. Doing it again changes
  // nothing and keeps the first reason, which is one line of at most 1000 bytes. kNotFound if there
  // is no such version.
  void Revoke(const std::string& run, VersionNumber version, const std::string& reason);
  // The versions that are withdrawn, ascending.
  std::vector<VersionNumber> Revoked(const std::string& run) const;
  // The newest version that is not withdrawn; kNoVersion if there is none. With a head hint it
  // lists nothing, so that it works over stores that cannot.
  VersionNumber Newest(const std::string& run) const;

 private:
  Board(std::unique_ptr<store::Store> store, std::string uuid, Trust trust)
      : store_(std::move(store)),
        uuid_(std::move(uuid)),
        trust_(std::move(trust)),
        recent_(std::make_unique<RecentEntries>()) {}

  std::unique_ptr<store::Store> store_;
  std::string uuid_;
  Trust trust_;
  std::unique_ptr<RecentEntries> recent_;
};

}  // namespace isthmus::board

#endif  // ISTHMUS_BOARD_BOARD_H_
