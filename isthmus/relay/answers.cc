#include "isthmus/relay/answers.h"

#include "isthmus/base/digest.h"

namespace isthmus::relay {
namespace {

std::string Quoted(std::string_view text) {
  constexpr size_t kDigits = 32;  // 128 bits
  return fmt::format("\"{}\"", Sha256(AsBytes(text)).Hex().substr(0, kDigits));
}

}  // namespace

std::string TagOf(std::string_view board, std::string_view key, uint64_t bytes) {
  return Quoted(fmt::format("{}\n{}\n{}", board, key, bytes));
}

std::string TagOfContent(std::string_view content) { return Quoted(content); }

net::ResponseHead HeadFor(const Selection& selection, std::string_view key, ObjectKind kind,
                          uint64_t size, std::string_view etag) {
  net::ResponseHead head{.status = selection.status};
  head.headers.Add("ETag", etag);
  head.headers.Add("Cache-Control", kind == ObjectKind::kImmutable
                                        ? "public, max-age=31536000, immutable"
                                        : "no-cache");
  head.headers.Add("Accept-Ranges", "bytes");
  if (selection.status == 304) return head;
  if (selection.status == 206) {
    head.headers.Add("Content-Range", fmt::format("bytes {}-{}/{}", selection.first,
                                                  selection.first + selection.bytes - 1, size));
  }
  if (selection.status == 416) head.headers.Add("Content-Range", fmt::format("bytes */{}", size));
  head.headers.Add("Content-Type",
                   key.ends_with(".json") ? "application/json" : "application/octet-stream");
  head.headers.Add("Content-Length", fmt::format("{}", selection.bytes));
  return head;
}

}  // namespace isthmus::relay
