#include "isthmus/ranks/meeting.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "isthmus/board/keys.h"

namespace isthmus::ranks {
namespace {

constexpr std::chrono::milliseconds kLongestPause{250};
constexpr std::string_view kFailed = "failed";
constexpr size_t kRankDigits = 5;
constexpr size_t kNamedRanks = 8;  // in a message

std::string Missing(const std::vector<std::optional<std::string>>& texts) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i]) ranks.push_back(i);
  }
  const std::string more =
      ranks.size() > kNamedRanks ? fmt::format(" and {} more", ranks.size() - kNamedRanks) : "";
  ranks.resize(std::min(ranks.size(), kNamedRanks));
  return fmt::format("{}{}", fmt::join(ranks, ", "), more);
}

}  // namespace

void Patience::Pause(const std::function<std::string()>& what) {
  progress_.Advance(0);
  const MonotonicTime now = MonotonicNow();
  if (now >= deadline_) {
    Throw(ErrorCode::kUnavailable, "wait for {}: not there within the deadline", what());
  }
  std::this_thread::sleep_for(
      std::min(next_, std::chrono::ceil<std::chrono::milliseconds>(deadline_ - now)));
  next_ = std::min(next_ * 3 / 2 + std::chrono::milliseconds(1), kLongestPause);
}

std::optional<Call> ReadCurrentCall(const board::Board& board, const std::string& run) {
  const std::string key = board::CallKey(run);
  try {
    const std::optional<std::string> text = board.ReadChecked(key);
    if (!text) return std::nullopt;
    return board::ReadText(board.store(), key, *text, ReadCall);
  } catch (const Error& error) {
    if (!MeansDamage(error)) throw;
    return std::nullopt;
  }
}

void PutCall(board::Board& board, const std::string& run, const Call& call) {
  const std::string key = board::CallKey(run);
  board.store().Put(key, AsBytes(board.Signed(key, board::ToText(ToJson(call)))));
}

std::string Meeting::Prefix() const {
  return fmt::format("{}{}/{}/", board::DataPrefix(run_), call_.version, call_.attempt);
}

std::string Meeting::Key(const std::string& name) const {
  return board::Board::PartKey(run_, call_.version, call_.attempt, name);
}

std::string Meeting::NameOf(std::string_view kind, uint32_t rank) {
  return fmt::format("{}-{:0{}}.json", kind, rank, kRankDigits);
}

std::string Meeting::Create(const std::string& name, const boost::json::object& object) {
  const std::string key = Key(name);
  std::string text = board_.Signed(key, board::ToText(object));
  if (text.size() > board::kMaxManifestBytes) {
    Throw(ErrorCode::kInvalid, "store {}: {} bytes, at most {} allowed", key, text.size(),
          board::kMaxManifestBytes);
  }
  if (!board_.store().Create(key, AsBytes(text))) {
    Throw(ErrorCode::kConflict,
          "store {}: it exists, another process works as rank {} of this attempt", key, rank_);
  }
  own_.push_back(key);
  return text;
}

void Meeting::Put(const std::string& name, ByteSpan content) {
  own_.push_back(Key(name));
  board_.store().Put(own_.back(), content);
}

void Meeting::RemoveOwn() {
  if (leads()) own_.push_back(Key(std::string(kOutlineName)));
  for (const std::string& key : own_) {
    if (key.ends_with(kVerdictName)) continue;  // the others still read it
    try {
      board_.store().Delete(key);
    } catch (const Error&) {  // left to cleaning
      return;
    }
  }
}

std::string Meeting::Await(const std::string& name) {
  const std::string key = Key(name);
  for (Patience patience(deadline_, progress_);; patience.Pause([&] { return Key(name); })) {
    if (std::optional<std::string> text = board_.ReadChecked(key)) return *std::move(text);
    CheckGoesOn();
  }
}

void Meeting::CheckGoesOn() {
  // First: a lead that finds itself replaced refuses, and the ranks had better join the new one.
  CheckStillCalled();
  if (leads()) CheckNobodyFailed(board_.store().List(Prefix()));
  const std::string name(kVerdictName);
  if (const auto text = board_.ReadChecked(Key(name))) {
    const Verdict verdict = Parse(name, *text, ReadVerdict);
    if (verdict.refused) throw Refused{*verdict.refused};
  }
}

void Meeting::CheckStillCalled() {
  const std::optional<Call> now = ReadCurrentCall(board_, run_);
  if (!now || *now == call_) return;
  if (!leads()) throw AttemptIsOver();
  Throw(ErrorCode::kConflict, "publish version {} of run {}: another lead has called",
        call_.version, run_);
}

std::vector<std::string> Meeting::Gather(std::string_view kind) {
  const std::string prefix = fmt::format("{}{}-", Prefix(), kind);
  std::vector<std::optional<std::string>> texts(call_.ranks);
  size_t found = 0;
  const auto what = [&] { return fmt::format("the {} of rank {}", kind, Missing(texts)); };
  for (Patience patience(deadline_, progress_); found < texts.size();) {
    const std::vector<std::string> keys = board_.store().List(Prefix());
    CheckNobodyFailed(keys);
    for (const std::string& key : keys) {
      const std::optional<uint64_t> rank = board::DigitsIn(key, prefix, kRankDigits);
      if (!rank || *rank >= texts.size() || texts[*rank]) continue;
      texts[*rank] = board_.ReadChecked(key);
      if (texts[*rank]) ++found;
    }
    if (found == texts.size()) break;
    CheckStillCalled();
    patience.Pause(what);
  }
  std::vector<std::string> all;
  all.reserve(texts.size());
  for (auto& text : texts) all.push_back(std::move(*text));
  return all;
}

void Meeting::CheckNobodyFailed(const std::vector<std::string>& keys) {
  const std::string prefix = fmt::format("{}{}-", Prefix(), kFailed);
  for (const std::string& key : keys) {
    const std::optional<uint64_t> rank = board::DigitsIn(key, prefix, kRankDigits);
    if (!rank) continue;
    const auto text = board_.ReadChecked(key);
    if (!text) continue;
    const Refusal why = board::ReadText(board_.store(), key, *text, ReadRefusal);
    const std::string reason = fmt::format("rank {} failed: {}", *rank, why.reason);
    if (why.baselines) throw WrongBaselines(why.code, reason);
    throw Error(why.code, reason);
  }
}

board::Manifest Meeting::AwaitCommit() {
  const auto what = [&] { return fmt::format("version {} of run {}", call_.version, run_); };
  for (Patience patience(deadline_, progress_);; patience.Pause(what)) {
    if (auto manifest = board_.Read(run_, call_.version)) return *manifest;
    CheckGoesOn();
  }
}

void Meeting::Fail(const Refusal& refusal) {
  try {
    if (leads()) {
      Create(std::string(kVerdictName), ToJson(Verdict{std::nullopt, refusal}));
    } else {
      Create(NameOf(kFailed, rank_), ToJson(refusal));
    }
  } catch (const Error&) {  // the others find out at their deadlines
  }
}

}  // namespace isthmus::ranks
