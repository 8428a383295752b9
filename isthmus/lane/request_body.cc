#include "isthmus/lane/request_body.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "isthmus/base/error.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::lane {
namespace {

// How much of a wrong value an error repeats.
constexpr size_t kShownCharacters = 40;

[[noreturn]] void Refuse(std::string_view field, std::string_view found, std::string_view allowed) {
  Throw(ErrorCode::kInvalid, "{}: {:?}, allowed is {}", field, found.substr(0, kShownCharacters),
        allowed);
}

void CheckOnce(std::string_view field, bool seen) {
  if (seen) Throw(ErrorCode::kInvalid, "{}: given twice, allowed is once", field);
}

// One member of weight_version.
class VersionField {
 public:
  explicit VersionField(std::string_view name) : name_(name) {}

  bool Is(std::string_view key) const { return JsonStringIs(key, name_); }
  void Read(std::string_view value, std::optional<VersionNumber>* out) {
    const std::string field = fmt::format("weight_version.{}", name_);
    CheckOnce(field, seen_);
    seen_ = true;
    if (value != "null") *out = ParseVersion(field, value);
  }

 private:
  std::string_view name_;
  bool seen_ = false;
};

}  // namespace

RequestBody::RequestBody(std::string_view text, std::string_view salt_field)
    : text_(text), salt_field_(salt_field) {
  if (!IsUtf8(text)) Throw(ErrorCode::kInvalid, "body: not UTF-8");
  JsonReader reader(text);
  // What members hold is refused only of a text that is JSON: its errors have other names.
  std::exception_ptr refused;
  const auto visit = [&](std::string_view key, std::string_view value) {
    if (refused) return;
    try {
      Visit(key, value);
    } catch (const Error&) {
      refused = std::current_exception();
    }
  };
  try {
    reader.Members(visit);
    reader.End();
  } catch (const Error& error) {
    throw error.Annotated("body: JSON");
  }
  if (refused) std::rethrow_exception(refused);
}

void RequestBody::Visit(std::string_view key, std::string_view value) {
  const size_t begin = RangeOf(key).begin;
  const size_t end = RangeOf(value).end;
  if (goes_to_next_key_) weight_version_->end = begin;
  goes_to_next_key_ = false;
  if (JsonStringIs(key, "weight_version")) {
    CheckOnce("weight_version", weight_version_.has_value());
    ReadConstraint(value);
    goes_to_next_key_ = members_ == 0;
    weight_version_ = {members_ == 0 ? begin : last_end_, end};
  } else if (JsonStringIs(key, "stream")) {
    ReadStream(value);
  } else if (!salt_field_.empty() && JsonStringIs(key, salt_field_)) {
    ReadSalt(value);
  }
  last_end_ = end;
  ++members_;
}

void RequestBody::ReadConstraint(std::string_view value) {
  if (value == "null") return;
  if (!value.starts_with('{')) Refuse("weight_version", value, "an object or null");
  VersionField min("min_version");
  VersionField exact("exact_version");
  JsonReader(value).Members([&](std::string_view key, std::string_view number) {
    if (min.Is(key)) return min.Read(number, &constraint_.min_version);
    if (exact.Is(key)) return exact.Read(number, &constraint_.exact_version);
    Refuse("weight_version", key, "a member min_version or exact_version");
  });
}

void RequestBody::ReadStream(std::string_view value) {
  CheckOnce("stream", stream_seen_);
  stream_seen_ = true;
  if (value != "true" && value != "false" && value != "null") {
    Refuse("stream", value, "true, false or null");
  }
  stream_ = value == "true";
}

void RequestBody::ReadSalt(std::string_view value) {
  CheckOnce(salt_field_, salt_.has_value());
  salt_ = RangeOf(value);
  if (value == "null") return;
  if (!value.starts_with('"')) Refuse(salt_field_, value, "a string or null");
  user_salt_ = DecodeJsonString(value);
  if (!user_salt_) Refuse(salt_field_, value, "a string of whole characters, not half of a pair");
}

RequestBody::Range RequestBody::RangeOf(std::string_view part) const {
  const auto begin = static_cast<size_t>(part.data() - text_.data());
  return {begin, begin + part.size()};
}

RequestBody::Edit RequestBody::SaltEdit(std::string_view salt) const {
  if (salt_) return {*salt_, fmt::format("\"{}\"", salt)};
  const size_t inside = text_.find('{') + 1;
  const bool alone = members_ == (weight_version_ ? 1 : 0);
  return {{inside, inside}, fmt::format("\"{}\":\"{}\"{}", salt_field_, salt, alone ? "" : ",")};
}

std::string RequestBody::Edited(std::string_view salt) const {
  std::vector<Edit> edits;
  if (!salt_field_.empty()) edits.push_back(SaltEdit(salt));
  if (weight_version_) edits.push_back({*weight_version_, ""});
  // An insertion stays in front of what goes at the same place.
  std::ranges::stable_sort(edits, {}, [](const Edit& edit) { return edit.range.begin; });

  std::string edited;
  edited.reserve(text_.size() + salt.size() + salt_field_.size() + sizeof R"("":"",)");
  size_t at = 0;
  for (const auto& [range, text] : edits) {
    edited.append(text_.substr(at, range.begin - at)).append(text);
    at = range.end;
  }
  return edited.append(text_.substr(at));
}

}  // namespace isthmus::lane
