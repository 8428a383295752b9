#include "isthmus/store/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <mutex>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/store/content_range.h"

namespace isthmus::store {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{16} << 20;
constexpr size_t kRangesAtOnce = 8;
constexpr int kMaxReplacements = 3;
// Memory that is taken at once for an announced size; what arrives can make it more.
constexpr uint64_t kMaxReserve = 64 << 20;

std::string RangeHeader(uint64_t offset, uint64_t length) {
  return fmt::format("bytes={}-{}", offset, offset + length - 1);
}

[[noreturn]] void RefuseSize(uint64_t found, uint64_t max_bytes) {
  Throw(ErrorCode::kCorrupt, "{} bytes, at most {} allowed", found, max_bytes);
}

// A whole object in memory.
class WholeSink final : public HttpSink {
 public:
  explicit WholeSink(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  void Begin(const HttpAnswer& head) override {
    content.clear();
    const auto range = RangeOf(head);
    if (!range) return;
    if (range->length > max_bytes_) RefuseSize(range->length, max_bytes_);
    content.reserve(std::min(range->length, kMaxReserve));
  }
  void Write(ByteSpan piece) override {
    if (piece.size() > max_bytes_ - content.size()) {
      Throw(ErrorCode::kCorrupt, "more bytes, at most {} allowed", max_bytes_);
    }
    content.append(AsText(piece));
  }

  std::string content;

 private:
  uint64_t max_bytes_;
};

// The bytes of a range, whether the server sends just them or the whole object.
class RangeSink : public HttpSink {
 public:
  RangeSink(uint64_t offset, uint64_t length) : offset_(offset), asked_(length), length_(length) {}

  void Begin(const HttpAnswer& head) override {
    etag = head.Header("etag");
    range = RangeOf(head);
    taken = 0;
    received_ = 0;
    skip_ = 0;
    length_ = asked_;
    if (head.status != 206) {
      skip_ = offset_;
    } else if (range->first != offset_) {
      Throw(ErrorCode::kCorrupt, "asked for bytes from {}, the server sends those from {}", offset_,
            range->first);
    }
    Check(head);
  }
  void Write(ByteSpan piece) override {
    received_ += piece.size();
    if (range && received_ > range->length) {  // in chunks, which may never end
      Throw(ErrorCode::kCorrupt, "more bytes than the {} that the server announced", range->length);
    }
    const uint64_t skipped = std::min<uint64_t>(skip_, piece.size());
    skip_ -= skipped;
    piece = piece.subspan(skipped);
    piece = piece.first(std::min<uint64_t>(piece.size(), length_ - taken));
    if (piece.empty()) return;
    Take(piece);
    taken += piece.size();
  }

  std::string etag;
  std::optional<ContentRange> range;  // of the answer; nullopt: it does not say how long it is
  uint64_t taken = 0;

 protected:
  uint64_t offset() const { return offset_; }
  uint64_t length() const { return length_; }
  // More than was asked for, since the server sends it anyway.
  void TakeTo(uint64_t end) { length_ = end - offset_; }
  virtual void Check(const HttpAnswer& head) = 0;
  virtual void Take(ByteSpan piece) = 0;

 private:
  uint64_t offset_;
  uint64_t asked_;
  uint64_t length_;
  uint64_t skip_ = 0;
  uint64_t received_ = 0;
};

class MemoryRangeSink final : public RangeSink {
 public:
  using RangeSink::RangeSink;
  std::string content;

  [[noreturn]] void RefuseEnd(uint64_t total) const {
    Throw(ErrorCode::kCorrupt, "{} bytes from byte {}, but the object ends at byte {}", length(),
          offset(), total);
  }

 protected:
  void Check(const HttpAnswer& /*head*/) override {
    content.clear();
    if (!range) return;
    const uint64_t sent_end = range->first + range->length;
    if (range->total < offset() + length() || sent_end < offset() + length()) {
      RefuseEnd(std::min(range->total, sent_end));
    }
    content.reserve(std::min(length(), kMaxReserve));
  }
  void Take(ByteSpan piece) override { content.append(AsText(piece)); }
};

// Tells how far a transfer is, each byte once, however often it had to be sent.
class ProgressOnce {
 public:
  explicit ProgressOnce(const TransferProgress& progress) : progress_(progress) {}

  // `high_water` is how much of a range was told of.
  void Reach(uint64_t taken, uint64_t* high_water) {
    if (!progress_ || taken <= *high_water) return;
    const std::lock_guard lock(mutex_);
    progress_(taken - *high_water);
    *high_water = taken;
  }

 private:
  const TransferProgress& progress_;
  std::mutex mutex_;
};

class FileRangeSink final : public RangeSink {
 public:
  // `max_bytes` is the most that the whole object may have.
  FileRangeSink(const File& file, uint64_t offset, uint64_t length, uint64_t max_bytes,
                ProgressOnce& progress)
      : RangeSink(offset, length), file_(file), max_bytes_(max_bytes), progress_(progress) {}

 protected:
  void Check(const HttpAnswer& head) override {
    if (!range) Throw(ErrorCode::kCorrupt, "the server does not say how long the object is");
    if (range->total > max_bytes_) RefuseSize(range->total, max_bytes_);
    if (head.status != 206) TakeTo(range->total);
  }
  void Take(ByteSpan piece) override {
    file_.WriteAt(offset() + taken, piece);
    progress_.Reach(taken + piece.size(), &told_);
  }

 private:
  const File& file_;
  uint64_t max_bytes_;
  ProgressOnce& progress_;
  uint64_t told_ = 0;
};

[[noreturn]] void ThrowMissing() { Throw(ErrorCode::kNotFound, "no such object"); }

// Thrown through a parallel loop: the object is another one now.
struct Replaced {};

// A file that replaces `target`, or is gone.
class FetchedFile {
 public:
  explicit FetchedFile(const fs::path& target)
      : target_(target),
        path_(target.parent_path() /
              fmt::format(".{}.tmp-{}", target.filename().string(), RandomId())),
        file_(File::CreateNew(path_)) {}
  ~FetchedFile() {
    if (!renamed_) std::remove(path_.c_str());
  }
  FetchedFile(const FetchedFile&) = delete;
  FetchedFile& operator=(const FetchedFile&) = delete;

  const File& file() const { return file_; }
  void Rename() {
    if (std::rename(path_.c_str(), target_.c_str()) != 0) {
      ThrowErrno(errno, "replace", target_.string());
    }
    renamed_ = true;
  }

 private:
  fs::path target_;
  fs::path path_;
  File file_;
  bool renamed_ = false;
};

class Fetcher {
 public:
  Fetcher(ObjectServer& server, std::string key, const File& file, uint64_t max_bytes,
          ProgressOnce& progress)
      : server_(server),
        key_(std::move(key)),
        file_(file),
        max_bytes_(max_bytes),
        progress_(progress) {}

  void Run() {
    // The first answer says how much there is; of small objects it is all.
    FileRangeSink first(file_, 0, kRangeBytes, max_bytes_, progress_);
    const HttpAnswer answer =
        server_.Read({"GET", key_, {{"range", RangeHeader(0, kRangeBytes)}}, &first, kRangeBytes});
    if (answer.status == 404) ThrowMissing();
    if (answer.status == 416) return;         // of nothing there is no first byte
    const bool whole = answer.status == 200;  // from a server that does not know ranges
    CheckLength(first, whole ? first.range->total : std::min(kRangeBytes, first.range->total));
    if (!whole) FetchRest(first);
  }

 private:
  void FetchRest(const FileRangeSink& first) {
    const uint64_t total = first.range->total;
    const uint64_t count = (total + kRangeBytes - 1) / kRangeBytes - 1;
    if (count == 0) return;
    ThreadPool pool(std::min<uint64_t>(count, kRangesAtOnce));
    pool.ParallelFor(count, [&](size_t i) {
      const uint64_t offset = (i + 1) * kRangeBytes;
      FetchRange(offset, std::min(kRangeBytes, total - offset), first);
    });
  }

  void FetchRange(uint64_t offset, uint64_t length, const FileRangeSink& first) {
    HttpHeaders headers = {{"range", RangeHeader(offset, length)}};
    // A weak ETag does not say that the bytes are the same, and never matches (RFC 9110, 13.1.1).
    if (first.etag.starts_with('"')) headers.emplace_back("if-match", first.etag);
    FileRangeSink sink(file_, offset, length, max_bytes_, progress_);
    const HttpAnswer answer = server_.Read({"GET", key_, std::move(headers), &sink, length});
    if (answer.status != 206 || sink.etag != first.etag ||
        sink.range->total != first.range->total) {
      throw Replaced();
    }
    CheckLength(sink, length);
  }

  void CheckLength(const RangeSink& sink, uint64_t length) const {
    if (sink.taken == length) return;
    Throw(ErrorCode::kCorrupt, "{} bytes came where {} were asked for", sink.taken, length);
  }

  ObjectServer& server_;
  std::string key_;
  const File& file_;
  uint64_t max_bytes_;
  ProgressOnce& progress_;
};

}  // namespace

template <typename Action>
auto ObjectReader::Named(std::string_view action, const std::string& key, const Action& read)
    -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("{} {} in {}", action, key, server_.Describe()));
  }
}

std::optional<std::string> ObjectReader::Get(const std::string& key, uint64_t max_bytes) {
  return Named("read", key, [&]() -> std::optional<std::string> {
    WholeSink sink(max_bytes);
    const HttpAnswer answer =
        server_.Read({"GET", key, {}, &sink, std::min(max_bytes, kMaxReserve)});
    if (answer.status == 404) return std::nullopt;
    if (answer.status == 200) return std::move(sink.content);
    Throw(ErrorCode::kCorrupt, "status {} for a whole object", answer.status);
  });
}

std::string ObjectReader::GetRange(const std::string& key, uint64_t offset, uint64_t length) {
  return Named("read", key, [&]() -> std::string {
    MemoryRangeSink sink(offset, length);
    uint64_t end = 0;
    if (length == 0 || !CheckedAdd(offset, length, &end)) {
      const uint64_t size = ExistingSize(key);
      if (length > 0 || offset > size) sink.RefuseEnd(size);
      return "";
    }
    const HttpAnswer answer = server_.Read({"GET",
                                            key,
                                            {{"range", RangeHeader(offset, length)}},
                                            &sink,
                                            std::min(length, kMaxReserve)});
    if (answer.status == 404) ThrowMissing();
    if (answer.status == 416) sink.RefuseEnd(ExistingSize(key));
    if (sink.taken != length) sink.RefuseEnd(offset + sink.taken);
    return std::move(sink.content);
  });
}

std::optional<uint64_t> ObjectReader::Size(const std::string& key) {
  return Named("read the size of", key, [&] { return SizeOf(key); });
}

std::optional<uint64_t> ObjectReader::SizeOf(const std::string& key) {
  const HttpAnswer answer = server_.Read({.method = "HEAD", .key = key, .headers = {}});
  if (answer.status == 404) return std::nullopt;
  const std::optional<uint64_t> size = ParseSize(answer.Header("content-length"));
  if (answer.status == 200 && size) return size;
  Throw(ErrorCode::kCorrupt, "status {}, Content-Length {:?}", answer.status,
        answer.Header("content-length").substr(0, 100));
}

uint64_t ObjectReader::ExistingSize(const std::string& key) {
  const std::optional<uint64_t> size = SizeOf(key);
  if (!size) ThrowMissing();
  return *size;
}

void ObjectReader::Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
                         const TransferProgress& progress) {
  Named("fetch", key, [&] {
    ProgressOnce once(progress);
    for (int i = 0; i < kMaxReplacements; ++i) {
      try {
        FetchedFile fetched(file);
        Fetcher(server_, key, fetched.file(), max_bytes, once).Run();
        return fetched.Rename();
      } catch (const Replaced&) {  // begin anew
      }
    }
    Throw(ErrorCode::kUnavailable, "it was replaced {} times meanwhile", kMaxReplacements);
  });
}

}  // namespace isthmus::store
