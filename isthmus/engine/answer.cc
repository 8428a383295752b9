#include "isthmus/engine/answer.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

namespace isthmus::engine {

namespace json = boost::json;

namespace {

constexpr size_t kExcerptBytes = 300;
// An OpenAPI document nests its schemas; everything else is flat.
constexpr size_t kMaxDepth = 64;

json::value Parse(const std::string& call, std::string_view text) {
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value value = json::parse(text, error, {}, options);
  if (!error) return value;
  Throw(ErrorCode::kCorrupt, "{}: the answer is not JSON ({}): {}", call, error.message(),
        Excerpt(text));
}

}  // namespace

std::string Excerpt(std::string_view text) {
  if (text.size() <= kExcerptBytes) return fmt::format("{:?}", text);
  return fmt::format("{:?}… ({} bytes)", text.substr(0, kExcerptBytes), text.size());
}

Document::Document(std::string call, std::string_view text)
    : call_(std::move(call)), value_(Parse(call_, text)) {}

const json::value* Document::Find(std::string_view pointer) const {
  boost::system::error_code none;
  const json::value* found = value_.find_pointer(pointer, none);
  return found == nullptr || found->is_null() ? nullptr : found;
}

bool Document::Flag(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  const bool* flag = found == nullptr ? nullptr : found->if_bool();
  if (flag == nullptr) Refuse(ErrorCode::kCorrupt, pointer, "expected true or false");
  return *flag;
}

std::string Document::Text(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  const json::string* text = found == nullptr ? nullptr : found->if_string();
  if (text == nullptr) Refuse(ErrorCode::kCorrupt, pointer, "expected a string");
  return std::string(*text);
}

uint64_t Document::Count(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  boost::system::error_code error;
  const bool is_integer = found != nullptr && (found->is_int64() || found->is_uint64());
  const uint64_t count = is_integer ? found->to_number<uint64_t>(error) : 0;
  if (!is_integer || error) Refuse(ErrorCode::kCorrupt, pointer, "expected a count");
  return count;
}

double Document::FiniteNumber(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  const double number =
      found != nullptr && found->is_number() ? found->to_number<double>() : std::nan("");
  if (!std::isfinite(number)) Refuse(ErrorCode::kCorrupt, pointer, "expected a finite number");
  return number;
}

const json::array& Document::Array(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  const json::array* array = found == nullptr ? nullptr : found->if_array();
  if (array == nullptr) Refuse(ErrorCode::kCorrupt, pointer, "expected a list");
  return *array;
}

const json::object& Document::Object(std::string_view pointer) const {
  const json::value* found = Find(pointer);
  const json::object* object = found == nullptr ? nullptr : found->if_object();
  if (object == nullptr) Refuse(ErrorCode::kCorrupt, pointer, "expected an object");
  return *object;
}

void Document::Refuse(ErrorCode code, std::string_view pointer, std::string_view why) const {
  const json::value* found = Find(pointer);
  Throw(code, "{}: {} in the answer: {}, found {}", call_, pointer.empty() ? "all" : pointer, why,
        found == nullptr ? "nothing" : Excerpt(json::serialize(*found)));
}

void Answer::RequireSuccess() const {
  if (status_ >= 200 && status_ < 300) return;
  const bool refuses_token = status_ == 401 || status_ == 403;
  Throw(refuses_token ? ErrorCode::kInvalid : ErrorCode::kUnavailable, "{}: status {}: {}", call_,
        status_, Excerpt(body_));
}

Document Answer::Json() const { return Document(call_, body_); }

}  // namespace isthmus::engine
