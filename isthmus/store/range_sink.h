// The body of an answer to a request for a range of an object.
#ifndef ISTHMUS_STORE_RANGE_SINK_H_
#define ISTHMUS_STORE_RANGE_SINK_H_

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "isthmus/base/error.h"
#include "isthmus/store/content_range.h"
#include "isthmus/store/http_transport.h"

namespace isthmus::store {

inline std::string RangeHeader(uint64_t offset, uint64_t length) {
  return fmt::format("bytes={}-{}", offset, offset + length - 1);
}

[[noreturn]] inline void RefuseSize(uint64_t found, uint64_t max_bytes) {
  Throw(ErrorCode::kCorrupt, "{} bytes, at most {} allowed", found, max_bytes);
}

[[noreturn]] inline void ThrowMissing() { Throw(ErrorCode::kNotFound, "no such object"); }

// The bytes of a range, whether the server sends just them or the whole object. What an answer says
// is compared with what was asked for before the first Take; more than it announced is kCorrupt.
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

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_RANGE_SINK_H_
