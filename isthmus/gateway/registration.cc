// What an island says when it registers.
#include "isthmus/base/error.h"
#include "isthmus/board/json_fields.h"
#include "isthmus/gateway/pool.h"

namespace isthmus::gateway {
namespace {

namespace json = boost::json;
using board::JsonFields;

constexpr size_t kMaxIdBytes = 128;
constexpr size_t kMaxInstanceBytes = 64;
constexpr size_t kMaxUrlBytes = 512;
constexpr uint64_t kMinTtlMs = 1'000;
constexpr uint64_t kMaxTtlMs = 600'000;

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
// Names and addresses, IPv6 with its zone.
constexpr std::string_view kHostCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:%";

void CheckName(std::string_view field, std::string_view text, size_t most) {
  const bool right = !text.empty() && text.size() <= most && text.front() != '.' &&
                     text.find_first_not_of(kNameCharacters) == text.npos;
  if (right) return;
  Throw(ErrorCode::kInvalid,
        "{} {:?}: expected 1 to {} characters of [A-Za-z0-9._-], not beginning with '.'", field,
        text.substr(0, 256), most);
}

net::Origin UrlIn(const JsonFields& fields) {
  const std::string text = fields.Text("url");
  if (text.size() > kMaxUrlBytes) {
    Throw(ErrorCode::kInvalid, "url: {} bytes, at most {}", text.size(), kMaxUrlBytes);
  }
  net::Origin url;
  try {
    url = net::Origin::Parse(text);
  } catch (const Error& error) {
    throw error.Annotated("url");
  }
  if (url.port != 0 && url.host.find_first_not_of(kHostCharacters) == url.host.npos) return url;
  Throw(ErrorCode::kInvalid, "url {:?}: expected http(s)://HOST[:PORT] and a port above 0", text);
}

bool LeavingIn(const JsonFields& fields) {
  const std::string state = fields.Text("state");
  if (state == "serving" || state == "leaving") return state == "leaving";
  Throw(ErrorCode::kInvalid, "state {:?}: expected serving or leaving", state.substr(0, 256));
}

Registration Read(const json::value& value) {
  const JsonFields fields(value, "");
  Registration registration;
  registration.id = fields.Text("id");
  CheckIslandId(registration.id);
  registration.instance = fields.Text("instance");
  CheckName("instance", registration.instance, kMaxInstanceBytes);
  registration.url = UrlIn(fields);
  registration.ttl = milliseconds(fields.Count("ttl_ms", kMinTtlMs, kMaxTtlMs));
  registration.leaving = LeavingIn(fields);
  if (fields.Has("info")) registration.report = ReadReportOf(value.at("info"));
  return registration;
}

}  // namespace

void CheckIslandId(std::string_view id) { CheckName("id", id, kMaxIdBytes); }

Registration ReadRegistration(std::string_view body) {
  if (body.size() > kMaxRegistrationBytes) {
    Throw(ErrorCode::kInvalid, "registration: {} bytes, at most {}", body.size(),
          kMaxRegistrationBytes);
  }
  try {
    return Read(board::ParseJson(body));
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalid, error.Annotated("registration").what());
  }
}

}  // namespace isthmus::gateway
