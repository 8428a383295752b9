#include "isthmus/store/store.h"

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/base/random.h"
#include "isthmus/store/dir_store.h"
#include "isthmus/store/environment.h"
#include "isthmus/store/http_store.h"
#include "isthmus/store/s3_store.h"

namespace isthmus::store {
namespace {

// S3 allows 1024 bytes for a key.
constexpr size_t kMaxKeyBytes = 1024;

bool IsAlphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool IsSegment(std::string_view segment) {
  return !segment.empty() && segment[0] != '.' && std::ranges::all_of(segment, [](char c) {
    return IsAlphanumeric(c) || c == '.' || c == '_' || c == '-';
  });
}

// The scheme of "scheme://rest" (RFC 3986, section 3.1), empty if there is none.
std::string_view SchemeOf(std::string_view location) {
  const std::string_view scheme = location.substr(0, location.find("://"));
  const bool is_scheme =
      scheme.size() < location.size() && !scheme.empty() && std::ranges::all_of(scheme, [](char c) {
        return IsAlphanumeric(c) || c == '+' || c == '-' || c == '.';
      });
  return is_scheme ? scheme : std::string_view();
}

}  // namespace

bool IsKey(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes) return false;
  for (size_t start = 0; start <= key.size();) {
    const size_t end = std::min(key.find('/', start), key.size());
    if (!IsSegment(key.substr(start, end - start))) return false;
    start = end + 1;
  }
  return true;
}

void CheckKey(std::string_view key) {
  if (IsKey(key)) return;
  Throw(ErrorCode::kInvalid,
        "key {:?}: expected at most {} bytes, segments of [A-Za-z0-9._-] with '/' between them, "
        "none empty or beginning with '.'",
        key.substr(0, 256), kMaxKeyBytes);
}

std::unique_ptr<Store> OpenStore(const std::string& location, const StoreOptions& options) {
  const std::string_view scheme = SchemeOf(location);
  if (scheme.empty() && !location.empty()) return std::make_unique<DirStore>(location);
  // "file://a/b" would name the host a: only the form without a host is a local path.
  if (location.starts_with("file:///")) {
    return std::make_unique<DirStore>(location.substr(std::string("file://").size()));
  }
  if (scheme == "s3") return std::make_unique<S3Store>(location, options, SystemEnvironment());
  if (scheme == "http" || scheme == "https") return std::make_unique<HttpStore>(location, options);
  Throw(ErrorCode::kInvalid,
        "open store {:?}: expected a directory path, file:///PATH, s3://BUCKET[/PREFIX] or "
        "http(s)://HOST[:PORT][/PATH]",
        location);
}

void CheckCreateIsConditional(Store& store) {
  const std::string key = "probe-" + RandomId();
  bool again = false;
  try {
    store.Create(key, AsBytes("first"));
    again = store.Create(key, AsBytes("second"));
    store.Delete(key);
  } catch (const Error& error) {
    throw error.Annotated("probe whether objects are created only once");
  }
  if (!again) return;
  Throw(ErrorCode::kInvalid,
        "use {}: it creates an object that exists (it ignores the condition of a write), so two "
        "publishers could commit one version",
        store.Describe());
}

}  // namespace isthmus::store
