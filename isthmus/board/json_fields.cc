#include "isthmus/board/json_fields.h"

#include <boost/json/parse.hpp>
#include <optional>

#include "isthmus/base/error.h"
#include "isthmus/board/manifest.h"

namespace isthmus::board {

namespace json = boost::json;

namespace {

// Only integers as written: 1.0 and 1e3 are numbers that somebody's tool has rewritten.
std::optional<uint64_t> CountIn(const json::value& value) {
  if (value.is_double()) return std::nullopt;
  boost::system::error_code error;
  const uint64_t count = value.to_number<uint64_t>(error);
  if (error) return std::nullopt;
  return count;
}

}  // namespace

json::value ParseJson(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error) Throw(ErrorCode::kCorrupt, "not JSON: {}", error.message());
  return value;
}

JsonFields::JsonFields(const json::value& value, std::string where)
    : object_(value.if_object()), where_(std::move(where)) {
  if (object_ == nullptr) {
    Throw(ErrorCode::kCorrupt, "{}: expected an object", where_.empty() ? "document" : where_);
  }
}

std::string JsonFields::Text(std::string_view key) const {
  const json::string* text = Require(key).if_string();
  if (text == nullptr) Refuse(key, "expected a string");
  return std::string(*text);
}

std::string JsonFields::OptionalText(std::string_view key) const {
  return Has(key) ? Text(key) : "";
}

uint64_t JsonFields::Count(std::string_view key, uint64_t min, uint64_t max) const {
  const std::optional<uint64_t> count = CountIn(Require(key));
  if (!count || *count < min || *count > max) {
    Refuse(key, fmt::format("expected an integer from {} to {}", min, max));
  }
  return *count;
}

int64_t JsonFields::Integer(std::string_view key) const {
  const int64_t* value = Require(key).if_int64();
  if (value == nullptr) Refuse(key, "expected an integer of 64 bits");
  return *value;
}

Sha256Digest JsonFields::Digest(std::string_view key) const {
  const std::string text = Text(key);
  try {
    return ParseSha256(text);
  } catch (const Error& error) {
    Refuse(key, error.what());
  }
}

WallTime JsonFields::Time(std::string_view key) const {
  const std::string text = Text(key);
  try {
    return ParseTime(text);
  } catch (const Error& error) {
    Refuse(key, error.what());
  }
}

JsonFields JsonFields::Object(std::string_view key) const { return {Require(key), PathOf(key)}; }

std::vector<JsonFields> JsonFields::Objects(std::string_view key) const {
  const json::array* array = Require(key).if_array();
  if (array == nullptr) Refuse(key, "expected an array");
  std::vector<JsonFields> objects;
  objects.reserve(array->size());
  for (const json::value& value : *array) {
    objects.emplace_back(value, fmt::format("{}[{}]", PathOf(key), objects.size()));
  }
  return objects;
}

std::vector<uint64_t> JsonFields::Counts(std::string_view key) const {
  const json::array* array = Require(key).if_array();
  if (array == nullptr) Refuse(key, "expected an array");
  std::vector<uint64_t> counts;
  counts.reserve(array->size());
  for (const json::value& value : *array) {
    const std::optional<uint64_t> count = CountIn(value);
    if (!count) Refuse(key, "expected integers");
    counts.push_back(*count);
  }
  return counts;
}

std::vector<std::string> JsonFields::Keys() const {
  std::vector<std::string> keys;
  for (const json::key_value_pair& field : *object_) keys.emplace_back(field.key());
  return keys;
}

void JsonFields::CheckFormat() const {
  const uint64_t format = Count("format", 1);
  if (format > kBoardFormat) {
    Throw(ErrorCode::kInvalid, "board format {}, this program reads {}", format, kBoardFormat);
  }
}

void JsonFields::Refuse(std::string_view key, std::string_view why) const {
  Throw(ErrorCode::kCorrupt, "{}: {}", PathOf(key), why);
}

const json::value* JsonFields::Find(std::string_view key) const {
  const json::value* value = object_->if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const json::value& JsonFields::Require(std::string_view key) const {
  const json::value* value = Find(key);
  if (value == nullptr) Refuse(key, "missing");
  return *value;
}

std::string JsonFields::PathOf(std::string_view key) const {
  // A key can be any text of any length: it is shortened and quoted like other foreign text.
  const std::string name = fmt::format("{:?}", key.substr(0, 256));
  const std::string shown = name.size() == key.size() + 2 ? std::string(key) : name;
  return where_.empty() ? shown : fmt::format("{}.{}", where_, shown);
}

boost::json::value VersionOrNull(VersionNumber version) {
  return version == kNoVersion ? boost::json::value(nullptr) : boost::json::value(version);
}

}  // namespace isthmus::board
