#include "isthmus/store/s3_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "isthmus/base/error.h"
#include "isthmus/store/aws_config.h"

namespace isthmus::store {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr size_t kMaxBucketBytes = 255;  // of the oldest buckets; today's have at most 63
constexpr size_t kMaxRegionBytes = 64;
constexpr std::string_view kGoogleHost = "storage.googleapis.com";

std::string FirstOf(std::initializer_list<std::string> values) {
  for (const std::string& value : values) {
    if (!value.empty()) return value;
  }
  return "";
}

bool IsName(std::string_view name, size_t max_bytes) {
  return !name.empty() && name.size() <= max_bytes && name[0] != '.' && name[0] != '-' &&
         IsKey(name) && name.find('/') == std::string_view::npos;
}

void CheckRegion(const std::string& region) {
  if (IsName(region, kMaxRegionBytes) && region.find('.') == std::string::npos) return;
  Throw(ErrorCode::kInvalid, "region {:?}: expected letters, digits, '-' and '_'",
        region.substr(0, 128));
}

HttpUrl AmazonEndpoint(const std::string& region) {
  const char* const domain = region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
  return {"https", fmt::format("s3.{}.{}", region, domain), "", ""};
}

void ParseLocation(const std::string& location, S3Settings* settings) {
  const std::string rest = location.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  settings->bucket = rest.substr(0, slash);
  settings->prefix = rest.substr(std::min(slash + 1, rest.size()));
  while (settings->prefix.ends_with('/')) settings->prefix.pop_back();
  if (!IsName(settings->bucket, kMaxBucketBytes) ||
      (!settings->prefix.empty() && !IsKey(settings->prefix))) {
    Throw(ErrorCode::kInvalid,
          "open store {:?}: expected s3://BUCKET[/PREFIX] of [A-Za-z0-9._-] and '/'",
          location.substr(0, 256));
  }
  if (!settings->prefix.empty()) settings->prefix += '/';
}

}  // namespace

S3Settings S3Settings::Resolve(const std::string& location, const StoreOptions& options,
                               const Environment& environment) {
  S3Settings settings;
  ParseLocation(location, &settings);
  const AwsProfile profile = ReadAwsProfile(environment);
  settings.region =
      FirstOf({options.s3_region, environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
               profile.Setting("region"), "us-east-1"});
  CheckRegion(settings.region);
  settings.ca_file =
      FirstOf({options.ca_file, environment("AWS_CA_BUNDLE"), profile.Setting("ca_bundle")});
  const std::string endpoint =
      FirstOf({options.s3_endpoint, environment("AWS_ENDPOINT_URL_S3"),
               environment("AWS_ENDPOINT_URL"), profile.Setting("endpoint_url")});
  settings.at_amazon = endpoint.empty();
  settings.endpoint =
      settings.at_amazon ? AmazonEndpoint(settings.region) : HttpUrl::Parse(endpoint);
  if (!settings.endpoint.path.empty()) {
    Throw(ErrorCode::kInvalid,
          "open store {}: endpoint {} has a path, expected http(s)://HOST[:PORT]", location,
          endpoint);
  }
  // No certificate covers "a.b.s3.REGION.amazonaws.com".
  const bool dotted = settings.bucket.find('.') != std::string::npos;
  settings.virtual_host = options.s3_virtual_host.value_or(settings.at_amazon && !dotted);
  if (settings.endpoint.host == kGoogleHost) {
    settings.dialect = kGoogleDialect;
    if (options.s3_region.empty()) settings.region = "auto";
  }
  return settings;
}

void S3Settings::MoveTo(const std::string& other_region) {
  CheckRegion(other_region);
  region = other_region;
  if (at_amazon) endpoint = AmazonEndpoint(region);
}

std::string S3Settings::Host() const {
  return virtual_host ? bucket + "." + endpoint.Authority() : endpoint.Authority();
}

std::string S3Settings::Path(const std::string& key) const {
  const std::string object = key.empty() ? "" : PercentEncode(prefix + key, /*keep_slashes=*/true);
  if (virtual_host) return "/" + object;
  return "/" + bucket + (object.empty() ? "" : "/" + object);
}

std::string S3Settings::Describe() const {
  std::string text = std::string(kScheme) + bucket + "/" + prefix;
  text.pop_back();
  return text;
}

}  // namespace isthmus::store
