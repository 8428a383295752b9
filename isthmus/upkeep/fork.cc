// Forking, step by step; the reason is what a cleaning of the parent beside it could do.
//   1. The parent's version is pinned: cleanings that begin now keep its anchors.
//   2. If it has no anchor, one is added. (Kept, by the pin.)
//   3. The anchor's objects are there, with their sizes.
//   4. The log entry is created: the fork exists, and cleanings keep for ever what it names.
//   5. All is looked at again. A cleaning that began before 1 first says what goes (kept.json, the
//      entries of added payloads), then looks for forks, then removes. So either it sees the fork,
//      or the fork sees here what it said.
//   6. The pin is removed.
#include "isthmus/upkeep/fork.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/board/extra.h"
#include "isthmus/board/kept.h"
#include "isthmus/board/pin.h"
#include "isthmus/upkeep/anchor.h"

namespace isthmus::upkeep {
namespace {

using board::Board;
using board::ForkPoint;
using board::Manifest;
using board::Payload;
using board::PayloadKind;

// A pin that goes with this object. If removing it fails it ends by itself, an hour after the last
// renewal: longer than a commit takes, and all that is at stake is an anchor that stays so long.
class TemporaryPin {
 public:
  TemporaryPin(Board& board, const ForkPoint& point, const std::string& for_run)
      : board_(board), point_(point), name_("fork-" + for_run) {
    constexpr size_t kMostPinBytes = 128;  // as runs' names
    name_.resize(std::min(name_.size(), kMostPinBytes));
    Renew();
  }
  ~TemporaryPin() {
    try {
      board::RemovePin(board_, point_.run, name_);
    } catch (const std::exception&) {
      // It expires.
    }
  }
  TemporaryPin(const TemporaryPin&) = delete;
  TemporaryPin& operator=(const TemporaryPin&) = delete;

  void Renew() {
    board::PutPin(board_, point_.run,
                  {name_, point_.version, SystemClock().Now() + std::chrono::hours(1)});
  }

 private:
  Board& board_;
  ForkPoint point_;
  std::string name_;
};

class Forker {
 public:
  Forker(Board& board, const ForkRequest& request, ThreadPool& pool, Progress& progress)
      : board_(board), request_(request), pool_(pool), progress_(progress) {}

  ForkResult Run() {
    RefuseTaken();
    ReadParent();
    RefuseRevoked(request_.from);
    RefuseRevoked(origin_);
    TemporaryPin pin(board_, origin_, request_.run);
    const Payload anchor = ReadOrAddAnchor();
    pin.Renew();  // storing an anchor takes its time
    CheckObjects(anchor);
    result_.manifest = Draft(anchor);
    const board::Writer writer = board_.OpenWriter(request_.run, parent_.view);
    result_.manifest.epoch = writer.epoch;
    board_.Commit(writer, result_.manifest);
    CheckStillThere(anchor);
    return std::move(result_);
  }

 private:
  void RefuseTaken() const {
    const board::VersionNumber head = board_.Head(request_.run);
    if (head == board::kNoVersion) return;
    Throw(ErrorCode::kConflict, "the run {} has versions up to {}, expected a new run",
          request_.run, head);
  }

  void ReadParent() {
    std::optional<Manifest> manifest = board_.Read(request_.from.run, request_.from.version);
    if (!manifest) Throw(ErrorCode::kNotFound, "no such version");
    parent_ = std::move(*manifest);
    origin_ = parent_.fork.value_or(request_.from);
  }

  void RefuseRevoked(const ForkPoint& point) const {
    if (!std::ranges::binary_search(board_.Revoked(point.run), point.version)) return;
    Throw(ErrorCode::kConflict, "version {} of run {} is revoked, expected one that is not",
          point.version, point.run);
  }

  // What the log entry names, unless a cleaning has removed it; else what was added. What a fork
  // names is never removed, whatever its own cleaning says.
  std::optional<Payload> FindAnchor() const {
    const auto own = std::ranges::find(parent_.payloads, PayloadKind::kAnchor, &Payload::kind);
    const bool may_be_there =
        parent_.fork.has_value() || board::ReadKept(board_, parent_.run).MayHave(parent_.version);
    if (own != parent_.payloads.end() && may_be_there) return *own;
    return board::ReadExtra(board_, parent_.run,
                            {parent_.version, PayloadKind::kAnchor, board::kNoVersion},
                            parent_.digest);
  }

  Payload ReadOrAddAnchor() {
    std::optional<Payload> anchor = FindAnchor();
    if (anchor) return *anchor;
    if (request_.checkpoint.empty()) {
      Throw(ErrorCode::kInvalid,
            "the version has no anchor; name its checkpoint, a replica or the trainer's own, with "
            "--checkpoint DIR to add one");
    }
    result_.stored_bytes =
        AddAnchor(board_, parent_.run, parent_.version, request_.checkpoint, pool_, progress_);
    anchor = FindAnchor();
    if (!anchor) Throw(ErrorCode::kConflict, "its anchor was removed meanwhile, try again");
    return *anchor;
  }

  void CheckObjects(const Payload& anchor) const {
    pool_.ParallelFor(anchor.parts.size(), [&](size_t i) {
      const board::PayloadPart& part = anchor.parts[i];
      const auto size = board_.store().Size(part.key);
      if (!size) Throw(ErrorCode::kNotFound, "its anchor needs {}, which is missing", part.key);
      if (*size == part.bytes) return;
      Throw(ErrorCode::kCorrupt, "its anchor needs {}, which has {} bytes instead of {}", part.key,
            *size, part.bytes);
    });
  }

  Manifest Draft(const Payload& anchor) const {
    Manifest manifest = parent_;
    manifest.run = request_.run;
    manifest.version = 1;
    manifest.parent = board::kNoVersion;
    manifest.fork = origin_;
    manifest.changed = manifest.elements;  // as all anchors say
    manifest.payloads = {anchor};
    manifest.meta.clear();
    manifest.created_at = SystemClock().Now();
    manifest.producer = "isthmus " ISTHMUS_VERSION;
    return manifest;
  }

  void CheckStillThere(const Payload& anchor) const {
    std::string found = "the parent no longer names them";
    try {
      const std::optional<Payload> now = FindAnchor();
      if (now && std::ranges::equal(now->parts, anchor.parts, {}, &board::PayloadPart::key,
                                    &board::PayloadPart::key)) {
        return CheckObjects(anchor);
      }
    } catch (const Error& error) {
      if (!MeansDamage(error)) throw;
      found = error.what();
    }
    Throw(ErrorCode::kConflict,
          "the fork was made, while a cleaning of run {} that takes its objects was under way: {}; "
          "if \"isthmus verify\" finds them missing, fork again under another name",
          origin_.run, found);
  }

  Board& board_;
  const ForkRequest& request_;
  ThreadPool& pool_;
  Progress& progress_;
  Manifest parent_;
  ForkPoint origin_;  // where the objects lie
  ForkResult result_;
};

}  // namespace

ForkResult Fork(Board& board, const ForkRequest& request, ThreadPool& pool, Progress& progress) {
  try {
    return Forker(board, request, pool, progress).Run();
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("fork version {} of run {} as {}", request.from.version,
                                      request.from.run, request.run));
  }
}

}  // namespace isthmus::upkeep
