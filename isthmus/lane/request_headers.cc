#include "isthmus/lane/request_headers.h"

#include <array>
#include <string>
#include <vector>

#include "isthmus/base/error.h"

namespace isthmus::lane {
namespace {

constexpr std::string_view kPrefix = "Isthmus-";

bool IsOurs(std::string_view name) {
  return name.size() >= kPrefix.size() &&
         net::EqualsIgnoreCase(name.substr(0, kPrefix.size()), kPrefix);
}

bool ParseSwitch(std::string_view field, std::string_view text) {
  if (text == "0" || text == "1") return text == "1";
  Throw(ErrorCode::kInvalid, "{}: \"{}\", allowed: 0 or 1", field, text);
}

using Reader = void (*)(std::string_view name, std::string_view value, HeaderFields* fields);

struct Entry {
  std::string_view name;
  Reader read;
};

constexpr std::array kFields = {
    Entry{"Isthmus-Min-Version",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->request.constraint.min_version = ParseVersion(name, value);
          }},
    Entry{"Isthmus-Exact-Version",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->request.constraint.exact_version = ParseVersion(name, value);
          }},
    Entry{"Isthmus-Max-Lag",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            ParseMaxLag(name, value, &fields->request.constraint);
          }},
    Entry{"Isthmus-Run",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            if (value.empty()) Throw(ErrorCode::kInvalid, "{}: empty", name);
            fields->request.constraint.run = value;
          }},
    Entry{"Isthmus-Session",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            if (value.empty()) Throw(ErrorCode::kInvalid, "{}: empty", name);
            fields->request.session = value;
          }},
    Entry{"Isthmus-Session-Pin",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->request.pin_session = ParseSwitch(name, value);
          }},
    Entry{"Isthmus-Wait-Ms",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->request.wait_ms = ParseWait(name, value);
          }},
    Entry{"Isthmus-Deadline-Ms",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->deadline = ParseDeadline(name, value);
          }},
    Entry{"Isthmus-Priority",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->priority = ParsePriority(name, value);
          }},
    Entry{"Isthmus-Request-Id",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->request_id = ParseRequestId(name, value);
          }},
    Entry{"Isthmus-Version-Spans",
          [](std::string_view name, std::string_view value, HeaderFields* fields) {
            fields->spans = ParseSwitch(name, value);
          }},
};

const Entry& EntryOf(std::string_view name) {
  for (const Entry& entry : kFields) {
    if (net::EqualsIgnoreCase(name, entry.name)) return entry;
  }
  Throw(ErrorCode::kInvalid, "{}: unknown header", name);
}

}  // namespace

HeaderFields ReadHeaders(const net::Headers& headers) {
  HeaderFields fields;
  for (size_t i = 0; i < headers.size(); ++i) {
    const auto [name, value] = headers[i];
    if (!IsOurs(name)) continue;
    const Entry& entry = EntryOf(name);
    if (headers.Count(name) > 1) Throw(ErrorCode::kInvalid, "{}: given twice", entry.name);
    // A proxy takes away what Connection names: the island would not see the constraint.
    if (headers.HasToken("Connection", name)) {
      Throw(ErrorCode::kInvalid, "{}: named by Connection, and would not be passed on", entry.name);
    }
    entry.read(entry.name, value, &fields);
  }
  return fields;
}

Request Joined(const RequestBody& body, const HeaderFields& headers) {
  Request request = headers.request;
  request.constraint = Merge(body.constraint(), headers.request.constraint);
  Check(request);
  return request;
}

void RemoveIsthmusFields(net::Headers* headers) {
  std::vector<std::string> names;
  for (size_t i = 0; i < headers->size(); ++i) {
    const std::string_view name = (*headers)[i].name;
    if (IsOurs(name)) names.emplace_back(name);
  }
  for (const std::string& name : names) headers->Remove(name);
}

}  // namespace isthmus::lane
