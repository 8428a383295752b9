#include "isthmus/sidecar/cache_salt.h"

#include <fmt/format.h>

#include "isthmus/base/bytes.h"
#include "isthmus/base/digest.h"

namespace isthmus::sidecar {
namespace {

std::string HexDigits(std::string_view text, size_t count) {
  return Sha256(AsBytes(text)).Hex().substr(0, count);
}

}  // namespace

std::string MakeCacheSalt(std::string_view run, board::VersionNumber version,
                          const std::optional<std::string>& user_salt) {
  std::string salt = fmt::format("{}.{}", HexDigits(run, 16), version);
  if (user_salt) salt.append(".").append(HexDigits(*user_salt, 32));
  return salt;
}

}  // namespace isthmus::sidecar
