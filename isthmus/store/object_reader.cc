#include "isthmus/store/object_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/store/content_range.h"
#include "isthmus/store/object_fetch.h"
#include "isthmus/store/range_sink.h"

namespace isthmus::store {
namespace {

// Memory that is taken at once for an announced size; what arrives can make it more.
constexpr uint64_t kMaxReserve = 64 << 20;

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
    FetchObject(server_, {key, file, max_bytes, progress}, &knows_no_ranges_);
  });
}

}  // namespace isthmus::store
