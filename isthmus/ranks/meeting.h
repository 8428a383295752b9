// How ranks meet at the store: the objects of one attempt, and waiting for them (docs/ranks.md,
// "Steps").
#ifndef ISTHMUS_RANKS_MEETING_H_
#define ISTHMUS_RANKS_MEETING_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "isthmus/base/clock.h"
#include "isthmus/base/progress.h"
#include "isthmus/board/board.h"
#include "isthmus/board/small_object.h"
#include "isthmus/ranks/messages.h"

namespace isthmus::ranks {

// The lead's, beside its call.
inline constexpr std::string_view kOutlineName = "outline";
inline constexpr std::string_view kVerdictName = "verdict.json";
// The first thing that a rank says in an attempt.
inline constexpr std::string_view kClaimKind = "claim";

// Thrown where a rank waits: the lead has called to another attempt.
struct AttemptIsOver {};

// Thrown where a rank waits: the lead has refused, so that no version comes of this attempt.
struct Refused {
  Refusal refusal;
};

// "wait for WHAT" ends with kUnavailable at the deadline, or when the progress stops it. Pauses
// grow from 2 ms to 250 ms.
class Patience {
 public:
  Patience(MonotonicTime deadline, Progress& progress) : deadline_(deadline), progress_(progress) {}
  void Pause(const std::function<std::string()>& what);

 private:
  MonotonicTime deadline_;
  Progress& progress_;
  std::chrono::milliseconds next_{2};
};

// The lead's call, as it stands; nullopt if there is none. A malformed one is none: the next call
// replaces it.
std::optional<Call> ReadCurrentCall(const board::Board& board, const std::string& run);
void PutCall(board::Board& board, const std::string& run, const Call& call);

// Not thread-safe. The board and the progress must outlive it.
class Meeting {
 public:
  Meeting(board::Board& board, std::string run, Call call, uint32_t rank, MonotonicTime deadline,
          Progress& progress)
      : board_(board),
        run_(std::move(run)),
        call_(std::move(call)),
        rank_(rank),
        deadline_(deadline),
        progress_(progress) {}

  const Call& call() const { return call_; }
  bool leads() const { return rank_ == 0; }
  std::string Key(const std::string& name) const;
  // "claim-00003.json"
  static std::string NameOf(std::string_view kind, uint32_t rank);

  // Creates an object, signed if the board signs, and returns its text; kConflict if it exists.
  std::string Create(const std::string& name, const boost::json::object& object);
  // Objects that are not JSON.
  void Put(const std::string& name, ByteSpan content);
  // Removes what this rank wrote, as well as it can. For when all have read it.
  void RemoveOwn();

  // Waits for the lead's object; throws Refused, AttemptIsOver or kUnavailable.
  std::string Await(const std::string& name);
  // As the lead: waits for the objects of this kind of all ranks, and returns their texts by rank.
  // A rank that failed ends it with that rank's error, or WrongBaselines; kConflict: another lead
  // has called.
  std::vector<std::string> Gather(std::string_view kind);
  // Waits until the version is in the log.
  board::Manifest AwaitCommit();

  // The fields of an object's text; errors name it.
  template <typename Read>
  auto Parse(const std::string& name, std::string_view text, Read read) const {
    return board::ReadText(board_.store(), Key(name), text, read);
  }

  // Tells the others, as well as it can, that this rank does not go on.
  void Fail(const Refusal& refusal);

 private:
  std::string Prefix() const;
  void CheckGoesOn();
  void CheckStillCalled();
  void CheckNobodyFailed(const std::vector<std::string>& keys);

  board::Board& board_;
  std::string run_;
  Call call_;
  uint32_t rank_;
  MonotonicTime deadline_;
  Progress& progress_;
  std::vector<std::string> own_;  // keys that this rank wrote
};

}  // namespace isthmus::ranks

#endif  // ISTHMUS_RANKS_MEETING_H_
