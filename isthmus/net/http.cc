#include "isthmus/net/http.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace isthmus::net {
namespace {

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsTokenChar(char c) {
  static constexpr auto kTable = [] {
    std::array<bool, 256> table{};
    for (unsigned char d = '0'; d <= '9'; ++d) table[d] = true;
    for (unsigned char a = 'a'; a <= 'z'; ++a) table[a] = true;
    for (unsigned char a = 'A'; a <= 'Z'; ++a) table[a] = true;
    for (unsigned char s : std::string_view("!#$%&'*+-.^_`|~")) table[s] = true;
    return table;
  }();
  return kTable[static_cast<unsigned char>(c)];
}

bool IsName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, IsTokenChar);
}

// Without a branch for each character.
bool IsValue(std::string_view value) {
  bool bad = false;
  for (const char c : value) bad |= (c == '\r') | (c == '\n') | (c == '\0');
  return !bad;
}

// Calls `use` with each trimmed part between commas.
template <typename Use>
void ForEachToken(std::string_view list, const Use& use) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    use(TrimBlanks(list.substr(0, comma)));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

constexpr std::pair<int, std::string_view> kReasons[] = {
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

ErrorCode CodeOf(int status) {
  if (status == 408 || status == 429) return ErrorCode::kNotReady;
  if (status >= 502 && status <= 504) return ErrorCode::kUnavailable;
  return status >= 500 && status != 501 && status != 505 ? ErrorCode::kInternal
                                                         : ErrorCode::kInvalid;
}

uint16_t ParsePort(std::string_view text, std::string_view url) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0) {
    Throw(ErrorCode::kInvalid, "parse {}: port \"{}\", allowed 1 to 65535", url, text);
  }
  return port;
}

}  // namespace

void Headers::Add(std::string_view name, std::string_view value) {
  if (!IsName(name)) Throw(ErrorCode::kInvalid, "header name \"{}\" is not a token", name);
  if (!IsValue(value)) Throw(ErrorCode::kInvalid, "header {} has CR, LF or NUL in its value", name);
  if (entries_.capacity() == 0) Reserve();
  entries_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(name.size()),
                      static_cast<uint32_t>(value.size())});
  text_.append(name).append(value);
}

// For what most messages have, at once.
void Headers::Reserve() {
  constexpr size_t kFields = 16;
  constexpr size_t kTextBytes = 512;
  entries_.reserve(kFields);
  text_.reserve(kTextBytes);
}

void Headers::Set(std::string_view name, std::string_view value) {
  Remove(name);
  Add(name, value);
}

size_t Headers::Remove(std::string_view name) {
  const std::string_view text = text_;
  return std::erase_if(entries_, [&](const Entry& entry) {
    return EqualsIgnoreCase(text.substr(entry.at, entry.name_bytes), name);
  });
}

void Headers::Clear() {
  text_.clear();
  entries_.clear();
}

std::optional<std::string_view> Headers::Find(std::string_view name) const {
  for (size_t i = 0; i < size(); ++i) {
    if (EqualsIgnoreCase((*this)[i].name, name)) return (*this)[i].value;
  }
  return std::nullopt;
}

size_t Headers::Count(std::string_view name) const {
  size_t count = 0;
  for (size_t i = 0; i < size(); ++i) count += EqualsIgnoreCase((*this)[i].name, name) ? 1 : 0;
  return count;
}

bool Headers::HasToken(std::string_view name, std::string_view token) const {
  bool found = false;
  for (size_t i = 0; i < size(); ++i) {
    if (!EqualsIgnoreCase((*this)[i].name, name)) continue;
    ForEachToken((*this)[i].value,
                 [&](std::string_view part) { found |= EqualsIgnoreCase(part, token); });
  }
  return found;
}

Headers::Field Headers::operator[](size_t index) const {
  const Entry& entry = entries_[index];
  const std::string_view text = text_;
  return {text.substr(entry.at, entry.name_bytes),
          text.substr(entry.at + entry.name_bytes, entry.value_bytes)};
}

void Headers::AppendTo(std::string* out) const {
  for (size_t i = 0; i < size(); ++i) {
    const Field field = (*this)[i];
    out->append(field.name).append(": ").append(field.value).append("\r\n");
  }
}

std::string_view StatusReason(int status) {
  const auto* at =
      std::ranges::lower_bound(kReasons, status, {}, [](auto& row) { return row.first; });
  return at != std::end(kReasons) && at->first == status ? at->second : "Unknown";
}

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kConflict:
      return 409;
    case ErrorCode::kNotReady:
    case ErrorCode::kUnavailable:
    case ErrorCode::kPoisoned:
      return 503;
    case ErrorCode::kCorrupt:
      return 502;
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

HttpError::HttpError(int status, const std::string& message)
    : Error(CodeOf(status), message), status_(status) {}

void RemoveHopByHop(Headers* headers) {
  std::vector<std::string> named;
  for (size_t i = 0; i < headers->size(); ++i) {
    if (!EqualsIgnoreCase((*headers)[i].name, "connection")) continue;
    ForEachToken((*headers)[i].value, [&](std::string_view name) { named.emplace_back(name); });
  }
  // Content-Length is the message's framing: a peer must not have it removed by naming it.
  for (const std::string& name : named) {
    if (!EqualsIgnoreCase(name, "content-length")) headers->Remove(name);
  }
  for (std::string_view name :
       {"connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization",
        "te", "trailer", "transfer-encoding", "upgrade"}) {
    headers->Remove(name);
  }
}

bool EqualsIgnoreCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return x == y || Lower(x) == Lower(y);
         });
}

std::string_view TrimBlanks(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

Origin Origin::Parse(std::string_view url) {
  Origin origin;
  std::string_view rest = url;
  origin.tls = rest.starts_with("https://");
  if (!origin.tls && !rest.starts_with("http://")) {
    Throw(ErrorCode::kInvalid, "parse {}: must begin with http:// or https://", url);
  }
  rest.remove_prefix(origin.tls ? 8 : 7);
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const bool bracket = rest.starts_with('[') && rest.find(']') != rest.npos;
  const size_t host_end = bracket ? rest.find(']') + 1 : std::min(rest.find(':'), rest.size());
  origin.host = bracket ? rest.substr(1, host_end - 2) : rest.substr(0, host_end);
  origin.port = origin.tls ? 443 : 80;
  rest.remove_prefix(host_end);
  if (rest.starts_with(':')) {
    origin.port = ParsePort(rest.substr(1), url);
  } else if (!rest.empty()) {
    Throw(ErrorCode::kInvalid, "parse {}: \"{}\" after the host", url, rest);
  }
  const bool odd = origin.host.find_first_of(" \t\r\n/?#@[]\\") != origin.host.npos;
  if (origin.host.empty() || odd) Throw(ErrorCode::kInvalid, "parse {}: no host name", url);
  return origin;
}

std::string Origin::Authority() const {
  const bool v6 = host.find(':') != host.npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

}  // namespace isthmus::net
