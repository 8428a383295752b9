#include "isthmus/store/s3_upload.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/base/thread_pool.h"
#include "isthmus/store/xml.h"

namespace isthmus::store {
namespace {

constexpr uint64_t kPartBytes = uint64_t{16} << 20;  // S3 asks for at least 5 MiB
constexpr uint64_t kMostParts = 10'000;              // S3's limit
constexpr size_t kPartsAtOnce = 4;
// A failed upload is taken back if the server is there; a lifecycle rule does it else.
constexpr auto kAbortDeadline = std::chrono::seconds(10);

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Hands out the parts one after another, hashed in this order.
class PartReader {
 public:
  PartReader(uint64_t bytes, const ReadContent& read)
      : bytes_(bytes),
        part_bytes_(std::max(kPartBytes, (bytes + kMostParts - 1) / kMostParts)),
        read_(read) {}

  size_t count() const { return static_cast<size_t>((bytes_ + part_bytes_ - 1) / part_bytes_); }

  struct Part {
    int number = 0;
    ByteSpan bytes;
  };
  Part Next(ByteVector* buffer) {
    const std::lock_guard lock(mutex_);
    const uint64_t size = std::min(part_bytes_, bytes_ - at_);
    buffer->resize(size);
    const ByteSpan bytes = read_(at_, *buffer);
    hash_.Update(bytes);
    at_ += size;
    return {++number_, bytes};
  }
  FileDigest Finish() { return {bytes_, hash_.Finish()}; }

 private:
  const uint64_t bytes_;
  const uint64_t part_bytes_;
  const ReadContent& read_;
  std::mutex mutex_;
  uint64_t at_ = 0;
  int number_ = 0;
  Sha256Stream hash_;
};

}  // namespace

Maker MakerOf(S3Client& client, const std::string& key, const std::string& call) {
  HttpAnswer answer;
  try {
    answer = client.Read({.method = "HEAD", .key = key, .headers = {}});
  } catch (const Error&) {
    return Maker::kUnknown;
  }
  const std::string_view found = answer.Header(client.Header(kCallMark));
  if (answer.status != 200 || found.empty()) return Maker::kUnknown;
  return found == call ? Maker::kThisCall : Maker::kAnother;
}

S3Upload::S3Upload(S3Client& client, std::string key)
    : client_(client), key_(std::move(key)), call_(RandomId()) {
  S3Request request;
  request.method = "POST";
  request.key = key_;
  request.query = {{"uploads", ""}};
  request.headers = {{client_.Header(kCallMark), call_}};
  const HttpAnswer answer = client_.Send(request).http;
  id_ = TextAt(ParseXml(answer.body), "InitiateMultipartUploadResult/UploadId");
  if (id_.empty()) Throw(ErrorCode::kCorrupt, "the answer names no upload");
}

S3Upload::~S3Upload() {
  if (completed_) return;
  S3Request request;
  request.method = "DELETE";
  request.key = key_;
  request.query = {{"uploadId", id_}};
  request.answers = {404};
  request.deadline = kAbortDeadline;
  try {
    client_.Send(request);
  } catch (const std::exception&) {  // left to the bucket's lifecycle rule
  }
}

void S3Upload::AddPart(int number, ByteSpan bytes) {
  S3Request request;
  request.method = "PUT";
  request.key = key_;
  request.query = {{"partNumber", fmt::format("{}", number)}, {"uploadId", id_}};
  request.body = bytes;
  request.transfer_bytes = bytes.size();
  const HttpAnswer answer = client_.Send(request).http;
  const std::string etag(answer.Header("etag"));
  if (etag.empty()) Throw(ErrorCode::kCorrupt, "part {}: the answer has no ETag", number);
  const std::lock_guard lock(mutex_);
  etags_[number] = etag;
  bytes_ += bytes.size();
}

void S3Upload::Complete() {
  std::string parts;
  for (const auto& [number, etag] : etags_) {
    parts += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number,
                         Escape(etag));
  }
  const std::string body = fmt::format(
      "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}"
      "</CompleteMultipartUpload>",
      parts);
  S3Request request;
  request.method = "POST";
  request.key = key_;
  request.query = {{"uploadId", id_}};
  request.headers = {{"content-type", "application/xml"}};
  request.body = AsBytes(body);
  request.fails_late = true;
  request.transfer_bytes = bytes_;  // putting together takes its time, too
  try {
    client_.Send(request);
    completed_ = true;
  } catch (const Error&) {
    // A try whose answer was lost may have completed it: then the server does not know the upload
    // any more, which it says in one way or another.
    completed_ = MakerOf(client_, key_, call_) == Maker::kThisCall;
    if (!completed_) throw;
  }
}

FileDigest UploadInParts(S3Client& client, const std::string& key, uint64_t bytes,
                         const ReadContent& read, const TransferProgress& progress) {
  PartReader reader(bytes, read);
  S3Upload upload(client, key);
  std::mutex told;
  // A buffer for each part in flight, and no more.
  ThreadPool pool(std::min(reader.count(), kPartsAtOnce));
  pool.ParallelFor(reader.count(), [&](size_t /*i*/) {
    ByteVector buffer;
    const PartReader::Part part = reader.Next(&buffer);
    upload.AddPart(part.number, part.bytes);
    const std::lock_guard lock(told);
    if (progress) progress(part.bytes.size());
  });
  upload.Complete();
  return reader.Finish();
}

}  // namespace isthmus::store
