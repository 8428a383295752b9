// How a bucket keeps the promises of a Store. What S3 itself promises:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
//
// Writing an object:
//  1. One PUT makes the object visible whole, durably, when it is answered with 200: a reader sees
//  the
//     old object or the new one. Its SHA-256 is signed, so the server refuses other bytes.
//  2. More than 64 MiB go up in parts: a part that is lost costs 16 MiB, and several use the line
//     better than one. The object appears when the upload is completed; a 200 counts only if its
//     body is no error. An upload that fails is aborted, for its parts would stay, and cost,
//     unseen.
//  3. The parts are cut from buffers that are hashed and sent: PutFile's digest is of the bytes
//  that
//     were stored even if somebody writes the file meanwhile.
//  4. Create is a PUT with If-None-Match: * (at Google x-goog-if-generation-match: 0). 412 says
//  that the
//     key exists. After a try whose answer was lost, the winner's mark tells whether it was this
//     call. The content would not do: two callers may have the same.
//
// Reading: object_reader.cc.
//
// Listing: pages of ListObjectsV2 until one is the last. S3's listing is consistent with its
// writes. Keys that break the rules are not objects, as in a directory.
#include "isthmus/store/s3_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/store/s3_upload.h"
#include "isthmus/store/xml.h"

namespace isthmus::store {
namespace {

// A page has at most 1000 keys of 1024 bytes, each with some more fields, encoded.
constexpr uint64_t kMaxPageBytes = 8 << 20;
constexpr size_t kMaxKeys = 10'000'000;

// "%41" as 'A', '+' as ' '; what is no such code stays.
std::string PercentDecode(const std::string& text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto hex = [](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    if (text[i] == '%' && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      decoded += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

struct Page {
  std::vector<std::string> keys;  // with the location's prefix
  std::string next;               // empty: this is the last one
};

Page ParsePage(const std::string& body) {
  const std::vector<XmlLeaf> leaves = ParseXml(body);
  if (leaves.empty() || !leaves.front().path.starts_with("ListBucketResult")) {
    Throw(ErrorCode::kCorrupt, "the answer is no listing");
  }
  const bool encoded = TextAt(leaves, "ListBucketResult/EncodingType") == "url";
  Page page;
  for (const XmlLeaf& leaf : leaves) {
    if (leaf.path != "ListBucketResult/Contents/Key") continue;
    page.keys.push_back(encoded ? PercentDecode(leaf.text) : leaf.text);
  }
  if (TextAt(leaves, "ListBucketResult/IsTruncated") != "true") return page;
  page.next = TextAt(leaves, "ListBucketResult/NextContinuationToken");
  if (page.next.empty()) Throw(ErrorCode::kCorrupt, "the listing goes on, but does not say where");
  return page;
}

// Errors name action, key and store; the key is checked first.
template <typename Action>
auto Named(std::string_view action, const std::string& key, const S3Client& client,
           const Action& run) -> decltype(run()) {
  CheckKey(key);
  try {
    return run();
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("{} {} in {}", action, key, client.Describe()));
  }
}

S3Request PutRequest(const std::string& key, ByteSpan content) {
  S3Request request;
  request.method = "PUT";
  request.key = key;
  request.body = content;
  request.transfer_bytes = content.size();
  return request;
}

}  // namespace

S3Store::S3Store(const std::string& location, const StoreOptions& options,
                 const Environment& environment)
    : prefix_(S3Settings::Resolve(location, options, environment).prefix),
      client_(S3Settings::Resolve(location, options, environment), options, environment) {}

std::optional<std::string> S3Store::Get(const std::string& key, uint64_t max_bytes) {
  CheckKey(key);
  return reader_.Get(key, max_bytes);
}

std::string S3Store::GetRange(const std::string& key, uint64_t offset, uint64_t length) {
  CheckKey(key);
  return reader_.GetRange(key, offset, length);
}

std::optional<uint64_t> S3Store::Size(const std::string& key) {
  CheckKey(key);
  return reader_.Size(key);
}

void S3Store::Fetch(const std::string& key, const fs::path& file, uint64_t max_bytes,
                    const TransferProgress& progress) {
  CheckKey(key);
  reader_.Fetch(key, file, max_bytes, progress);
}

void S3Store::PutOnce(const std::string& key, ByteSpan content, const Sha256Digest& digest) {
  S3Request request = PutRequest(key, content);
  request.body_sha256 = digest;
  client_.Send(request);
}

void S3Store::Put(const std::string& key, ByteSpan content) {
  Named("store", key, client_, [&] {
    if (content.size() <= kLargestSinglePut) return PutOnce(key, content, Sha256(content));
    const auto read = [&](uint64_t offset, MutableByteSpan buffer) {
      return content.subspan(offset, buffer.size());
    };
    UploadInParts(client_, key, content.size(), read, {});
  });
}

FileDigest S3Store::PutFile(const std::string& key, const fs::path& path,
                            const TransferProgress& progress) {
  return Named("store", key, client_, [&]() -> FileDigest {
    const File file = File::OpenRead(path);
    const uint64_t bytes = file.Size();
    const auto read = [&](uint64_t offset, MutableByteSpan buffer) -> ByteSpan {
      file.ReadAt(offset, buffer);
      return buffer;
    };
    if (bytes > kLargestSinglePut) return UploadInParts(client_, key, bytes, read, progress);
    ByteVector content(bytes);
    read(0, content);
    const FileDigest digest = {bytes, Sha256(content)};
    PutOnce(key, content, digest.sha256);
    if (progress) progress(bytes);
    return digest;
  });
}

bool S3Store::Create(const std::string& key, ByteSpan content) {
  return Named("create", key, client_, [&] {
    const std::string call = RandomId();
    S3Request request = PutRequest(key, content);
    request.headers = {client_.CreateOnly(), {client_.Header(kCallMark), call}};
    request.answers = {412};
    const S3Answer answer = client_.Send(request);
    if (answer.http.status != 412) return true;
    if (answer.earlier_tries == 0) return false;
    const Maker maker = MakerOf(client_, key, call);
    if (maker != Maker::kUnknown) return maker == Maker::kThisCall;
    Throw(
        ErrorCode::kUnavailable,
        "an answer was lost, and what is there does not say who made it: it may have been created");
  });
}

std::vector<std::string> S3Store::ListPages(const std::string& prefix) {
  std::vector<std::string> keys;
  S3Request request;
  request.max_body_bytes = kMaxPageBytes;
  for (std::string token;;) {
    request.query = {{"list-type", "2"}, {"prefix", prefix_ + prefix}, {"encoding-type", "url"}};
    if (!token.empty()) request.query.emplace_back("continuation-token", token);
    Page page = ParsePage(client_.Send(request).http.body);
    for (const std::string& key : page.keys) {
      if (!key.starts_with(prefix_ + prefix)) continue;
      if (IsKey(key.substr(prefix_.size()))) keys.push_back(key.substr(prefix_.size()));
    }
    if (page.next.empty()) return keys;
    if (page.next == token || page.keys.empty() || keys.size() > kMaxKeys) {
      Throw(ErrorCode::kCorrupt, "the listing does not end");
    }
    token = page.next;
  }
}

std::vector<std::string> S3Store::List(const std::string& prefix) {
  std::vector<std::string> keys;
  try {
    keys = ListPages(prefix);
  } catch (const Error& error) {
    throw error.Annotated(fmt::format("list {} in {}", prefix.substr(0, 256), Describe()));
  }
  std::ranges::sort(keys);
  const auto repeated = std::ranges::unique(keys);
  keys.erase(repeated.begin(), repeated.end());
  return keys;
}

void S3Store::Delete(const std::string& key) {
  Named("delete", key, client_, [&] {
    S3Request request;
    request.method = "DELETE";
    request.key = key;
    request.answers = {404};
    client_.Send(request);
  });
}

}  // namespace isthmus::store
