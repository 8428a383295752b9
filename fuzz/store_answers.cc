// What stores over HTTP read: the XML of S3, the JSON of credential endpoints, AWS's files, ranges
// and addresses. The first byte says what the rest is.
#include <fmt/format.h>

#include "fuzz/fuzz.h"
#include "isthmus/store/aws_config.h"
#include "isthmus/store/aws_credentials.h"
#include "isthmus/store/content_range.h"
#include "isthmus/store/http_url.h"
#include "isthmus/store/s3_client.h"
#include "isthmus/store/xml.h"

namespace isthmus::fuzz {
namespace {

void FuzzXml(std::string_view text) {
  size_t bytes = 0;
  Succeeds([&] {
    for (const store::XmlLeaf& leaf : store::ParseXml(text)) {
      Require(!leaf.path.empty(), "an element without a name");
      bytes += leaf.text.size();
    }
  });
  // Character references are longer than what they stand for, and there are no others.
  Require(bytes <= text.size(), "a document that grows");
  store::ParseS3Error(std::string(text));
}

void FuzzRange(std::string_view text) {
  const auto range = store::ParseContentRange(text);
  if (!range) return;
  Require(range->length > 0 && range->first + range->length <= range->total,
          "a range outside of its object");
  const auto again = store::ParseContentRange(
      fmt::format("bytes {}-{}/{}", range->first, range->first + range->length - 1, range->total));
  Require(again && again->first == range->first && again->length == range->length &&
              again->total == range->total,
          "a range reads back as another");
}

void FuzzUrl(std::string_view text) {
  store::HttpUrl url;
  if (!Succeeds([&] { url = store::HttpUrl::Parse(text); }, {ErrorCode::kInvalid})) return;
  const store::HttpUrl again = store::HttpUrl::Parse(url.Origin() + url.path);
  Require(again.Origin() == url.Origin() && again.path == url.path,
          "an address reads back as another");
}

void FuzzAnswer(Input input) {
  const uint8_t kind = input.U8();
  const std::string_view text = AsText(input.rest());
  switch (kind % 5) {
    case 0:
      return FuzzXml(text);
    case 1:
      Succeeds([&] { store::ParseCredentials(text); });
      return;
    case 2:
      Succeeds([&] { store::ParseAwsFile(text); }, {ErrorCode::kInvalid});
      return;
    case 3:
      return FuzzRange(text);
    default:
      return FuzzUrl(text);
  }
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzAnswer(isthmus::fuzz::Input(data, size));
  return 0;
}
