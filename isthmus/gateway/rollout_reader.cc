#include "isthmus/gateway/rollout_reader.h"

#include <zstd.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "isthmus/base/clock.h"
#include "isthmus/base/digest.h"
#include "isthmus/base/error.h"
#include "isthmus/gateway/rollout.h"

namespace isthmus::gateway {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{8} << 20;
constexpr std::string_view kPrefix = "rollouts/";
constexpr std::string_view kSuffix = ".jsonl.zst";
constexpr std::string_view kWholeTime = "2026-01-31T00:00:00.000Z";
constexpr size_t kDateBytes = 10;
// An object is named for the day when its first line was written. A line may have come that long
// before, and be written that long after: the longest request and the longest rotation.
constexpr std::chrono::hours kMargin{48};

// The whole time that begins so, the others of its parts being the smallest.
std::string WholeTime(const std::string& time) {
  if (time.empty()) return time;
  if (time.size() < kDateBytes || time.size() > kWholeTime.size()) {
    Throw(ErrorCode::kInvalid, "read time {:?}: expected 2026-01-31 or 2026-01-31T09:30:00.250Z",
          time.substr(0, 2 * kWholeTime.size()));
  }
  std::string whole = time.back() == 'Z' ? time.substr(0, time.size() - 1) : time;
  whole += kWholeTime.substr(whole.size());
  try {
    ParseTime(whole);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, error.what());
  }
  return whole;
}

std::string DateAround(const std::string& time, std::chrono::hours distance) {
  return FormatTime(ParseTime(time) + distance).substr(0, kDateBytes);
}

std::string_view TimeOf(std::string_view line, std::string_view id) {
  constexpr std::string_view kBetween = R"(","time":")";
  const size_t at = line.find(id) + id.size();
  if (line.substr(at, kBetween.size()) != kBetween) return {};
  return line.substr(at + kBetween.size(), kWholeTime.size());
}

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Frames come in, lines go out.
class LineStream {
 public:
  LineStream() : context_(ZSTD_createDCtx()), out_(ZSTD_DStreamOutSize(), '\0') {
    if (!context_) Throw(ErrorCode::kUnavailable, "read rollouts: no memory");
  }

  template <typename Take>
  void Feed(std::string_view packed, const Take& take) {
    ZSTD_inBuffer in{packed.data(), packed.size(), 0};
    bool more = true;  // what did not fit into out_
    while (in.pos < in.size || more) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      left_ = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(left_) != 0) Throw(ErrorCode::kCorrupt, "{}", ZSTD_getErrorName(left_));
      more = out.pos == out.size;
      TakeLines(std::string_view(out_).substr(0, out.pos), take);
    }
  }
  void End() const {
    if (left_ != 0) Throw(ErrorCode::kCorrupt, "the last frame is cut short");
    if (!held_.empty()) Throw(ErrorCode::kCorrupt, "the last line has no end");
  }

 private:
  template <typename Take>
  void TakeLines(std::string_view text, const Take& take) {
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
      held_.append(text.substr(0, end));
      take(std::string_view(held_));
      held_.clear();
      text.remove_prefix(end + 1);
    }
    if (held_.size() + text.size() > RolloutReader::kMaxLineBytes) {
      Throw(ErrorCode::kCorrupt, "a line of more than {} bytes", RolloutReader::kMaxLineBytes);
    }
    held_.append(text);
  }

  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::string out_;
  std::string held_;
  size_t left_ = 0;  // 0: a frame has ended
};

}  // namespace

RolloutReader::RolloutReader(store::Store& store, const RolloutFilter& filter)
    : store_(store), filter_{WholeTime(filter.since), WholeTime(filter.until)} {}

ReadRollouts RolloutReader::Read(const Visit& visit) {
  for (const std::string& key : Keys()) {
    try {
      ReadObject(key, visit);
    } catch (const Error& error) {
      throw error.Annotated(fmt::format("read {} in {}", key, store_.Describe()));
    }
    ++counts_.objects;
  }
  return counts_;
}

// Those of days on which lines that pass can have been written.
std::vector<std::string> RolloutReader::Keys() {
  std::vector<std::string> keys = store_.List(std::string(kPrefix));
  const std::string first = filter_.since.empty() ? "" : DateAround(filter_.since, -kMargin);
  const std::string last = filter_.until.empty() ? "" : DateAround(filter_.until, kMargin);
  std::erase_if(keys, [&](const std::string& key) {
    const std::string_view date = std::string_view(key).substr(kPrefix.size(), kDateBytes);
    return !key.ends_with(kSuffix) || date < first || (!last.empty() && date > last);
  });
  return keys;
}

void RolloutReader::ReadObject(const std::string& key, const Visit& visit) {
  const uint64_t size = store_.Size(key).value_or(0);
  LineStream lines;
  for (uint64_t at = 0; at < size; at += kRangeBytes) {
    const std::string packed = store_.GetRange(key, at, std::min(kRangeBytes, size - at));
    lines.Feed(packed, [&](std::string_view line) { TakeLine(line, visit); });
  }
  lines.End();
}

void RolloutReader::TakeLine(std::string_view line, const Visit& visit) {
  const std::string_view id = IdOfLine(line);
  if (id.empty()) {
    ++counts_.malformed;
    return;
  }
  if (!Passes(line)) return;
  const Xxh128Digest digest = Xxh3_128(AsBytes(id));
  if (!seen_.emplace(AsText(digest.span())).second) {
    ++counts_.repeated;
    return;
  }
  ++counts_.lines;
  visit(line);
}

bool RolloutReader::Passes(std::string_view line) const {
  if (filter_.since.empty() && filter_.until.empty()) return true;
  const std::string_view time = TimeOf(line, IdOfLine(line));
  return time >= filter_.since && (filter_.until.empty() || time < filter_.until);
}

}  // namespace isthmus::gateway
