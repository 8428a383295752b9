// The files of the dashboard (web/ and its chart library), which the build puts into the program.
#ifndef ISTHMUS_GATEWAY_ASSETS_H_
#define ISTHMUS_GATEWAY_ASSETS_H_

#include <optional>
#include <span>
#include <string_view>

namespace isthmus::gateway {

// What answers with assets say besides: nothing is loaded from elsewhere, nothing frames the page.
inline constexpr std::string_view kAssetPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Views of constants.
struct Asset {
  std::string_view path;          // "/", or "/dashboard/NAME"
  std::string_view content_type;  // "text/html; charset=utf-8"
  std::string_view etag;          // strong, with its quotes; of `bytes`
  std::string_view bytes;
  std::string_view gzip;       // the same, compressed, with an ETag of its own; empty: not smaller
  std::string_view gzip_etag;  // empty if gzip is
};

// `path` as it stands in the request, without its query.
std::optional<Asset> FindAsset(std::string_view path);
std::span<const Asset> AllAssets();

}  // namespace isthmus::gateway

#endif  // ISTHMUS_GATEWAY_ASSETS_H_
