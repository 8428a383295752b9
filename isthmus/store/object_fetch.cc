#include "isthmus/store/object_fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <mutex>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/store/range_sink.h"

namespace isthmus::store {
namespace {

constexpr uint64_t kRangeBytes = uint64_t{16} << 20;
// Of an object whose size is expected: a connection takes about as long to get going as 1 MiB takes
// at full speed, on any line.
constexpr uint64_t kLeastRangeBytes = uint64_t{1} << 20;
constexpr size_t kRangesAtOnce = 8;
constexpr int kMaxReplacements = 3;
// S3's largest object is smaller; who allows more has no expectation.
constexpr uint64_t kMostExpected = uint64_t{1} << 44;
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

class FileRangeSink : public RangeSink {
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

// Thrown through a parallel loop: the object is another one now.
struct Replaced {};

// The object has another size than was expected, or its server knows no ranges.
struct NotAsExpected {
  bool whole = false;  // the answer was the whole object
};

// A range of an object that must have just so many bytes.
class ExpectedRangeSink final : public FileRangeSink {
 public:
  ExpectedRangeSink(const File& file, uint64_t offset, uint64_t length, uint64_t total,
                    ProgressOnce& progress)
      : FileRangeSink(file, offset, length, total, progress), total_(total) {}

 protected:
  // Before the body: of a whole object not a byte is taken.
  void Check(const HttpAnswer& head) override {
    FileRangeSink::Check(head);
    if (head.status != 206 || range->total != total_) throw NotAsExpected{head.status == 200};
  }

 private:
  uint64_t total_;
};

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

  // Of an object that has max_bytes: all ranges at once, so that nobody waits for the first one to
  // say how much there is, and as small as to use all connections.
  void RunExpected() {
    const uint64_t share = (max_bytes_ + kRangesAtOnce - 1) / kRangesAtOnce;
    const uint64_t step = std::clamp(share, kLeastRangeBytes, kRangeBytes);
    const uint64_t count = (max_bytes_ + step - 1) / step;
    ThreadPool pool(std::min<uint64_t>(count, kRangesAtOnce));
    std::vector<std::string> etags(count);
    pool.ParallelFor(count, [&](size_t i) {
      etags[i] = FetchExpected(i * step, std::min(step, max_bytes_ - i * step));
    });
    // Ranges of two objects of one size.
    if (std::ranges::adjacent_find(etags, std::ranges::not_equal_to()) != etags.end()) {
      throw Replaced();
    }
  }

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
  // The ETag of the answer.
  std::string FetchExpected(uint64_t offset, uint64_t length) {
    ExpectedRangeSink sink(file_, offset, length, max_bytes_, progress_);
    const HttpAnswer answer =
        server_.Read({"GET", key_, {{"range", RangeHeader(offset, length)}}, &sink, length});
    if (answer.status == 404) ThrowMissing();
    if (answer.status != 206) throw NotAsExpected();
    CheckLength(sink, length);
    return sink.etag;
  }

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

void FetchInto(const File& file, ObjectServer& server, const ObjectFetch& fetch,
               ProgressOnce& progress, std::atomic<bool>* knows_no_ranges) {
  Fetcher fetcher(server, fetch.key, file, fetch.max_bytes, progress);
  const bool expected = fetch.max_bytes > kLeastRangeBytes && fetch.max_bytes <= kMostExpected;
  if (expected && !*knows_no_ranges) {
    try {
      return fetcher.RunExpected();
    } catch (const NotAsExpected& found) {
      if (found.whole) *knows_no_ranges = true;
    }
  }
  fetcher.Run();
}

}  // namespace

void FetchObject(ObjectServer& server, const ObjectFetch& fetch,
                 std::atomic<bool>* knows_no_ranges) {
  ProgressOnce once(fetch.progress);
  for (int i = 0; i < kMaxReplacements; ++i) {
    try {
      FetchedFile fetched(fetch.file);
      FetchInto(fetched.file(), server, fetch, once, knows_no_ranges);
      return fetched.Rename();
    } catch (const Replaced&) {  // begin anew
    }
  }
  Throw(ErrorCode::kUnavailable, "it was replaced {} times meanwhile", kMaxReplacements);
}

}  // namespace isthmus::store
