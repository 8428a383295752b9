#include "isthmus/store/http_url.h"

#include <algorithm>

#include "isthmus/base/error.h"
#include "isthmus/store/ascii.h"

namespace isthmus::store {
namespace {

constexpr size_t kMaxUrlBytes = 4096;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsHostCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

bool IsHost(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    return std::ranges::all_of(host.substr(1, host.size() - 2), [](char c) {
      return IsDigit(c) || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
    });
  }
  return !host.empty() && std::ranges::all_of(host, IsHostCharacter);
}

bool IsPort(std::string_view port) {
  return !port.empty() && port.size() <= 5 && std::ranges::all_of(port, IsDigit) &&
         std::stoul(std::string(port)) <= 65'535;
}

bool IsPath(std::string_view path) {
  return std::ranges::all_of(
      path, [](char c) { return c > ' ' && c < '\x7F' && c != '?' && c != '#' && c != '\\'; });
}

[[noreturn]] void Refuse(std::string_view text) {
  Throw(ErrorCode::kInvalid, "read address {:?}: expected http(s)://HOST[:PORT][/PATH]",
        text.substr(0, 256));
}

}  // namespace

HttpUrl HttpUrl::Parse(std::string_view text) {
  HttpUrl url;
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || text.size() > kMaxUrlBytes) Refuse(text);
  url.scheme = text.substr(0, colon);
  if (url.scheme != "http" && url.scheme != "https") Refuse(text);
  const std::string_view rest = text.substr(colon + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  url.path = rest.substr(slash);
  url.path.resize(url.path.find_last_not_of('/') + 1);
  url.host = ToLower(rest.substr(0, slash));
  const size_t port_at = url.host.rfind(':');
  if (port_at != std::string::npos && !url.host.ends_with(']')) {
    url.port = url.host.substr(port_at + 1);
    url.host.resize(port_at);
    if (!IsPort(url.port)) Refuse(text);
  }
  if (!IsHost(url.host) || !IsPath(url.path)) Refuse(text);
  if (url.port == (url.scheme == "http" ? "80" : "443")) url.port.clear();
  return url;
}

}  // namespace isthmus::store
