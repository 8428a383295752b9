#include "isthmus/gateway/rollout.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/string_view.hpp>
#include <cmath>
#include <iterator>

#include "isthmus/base/error.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::gateway {
namespace {

constexpr size_t kMaxIdBytes = 128;
constexpr std::string_view kFirstMember = R"({"id":")";

bool IsIdCharacter(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
         c == '_' || c == '-';
}

std::string Quoted(std::string_view text) {
  std::string kept(text);
  if (!lane::IsUtf8(kept)) std::erase_if(kept, [](char c) { return (c & 0x80) != 0; });
  return boost::json::serialize(boost::json::string_view(kept));
}

// Appends members behind others.
class Line {
 public:
  explicit Line(std::string_view id) { text_.append(kFirstMember).append(id).push_back('"'); }

  void Text(std::string_view name, std::string_view value) {
    if (!value.empty()) Raw(name, Quoted(value));
  }
  template <typename Number>
  void Count(std::string_view name, std::optional<Number> value) {
    if (value) Raw(name, fmt::format("{}", *value));
  }
  void Milliseconds(std::string_view name, double value) {
    Raw(name, fmt::format("{:.3f}", std::isfinite(value) ? value : 0));
  }
  void Flag(std::string_view name, bool value) {
    if (value) Raw(name, "true");
  }
  void Json(std::string_view name, std::string_view json) {
    if (json.empty()) return;
    if (const auto line = OnOneLine(json)) Raw(name, *line);
  }
  std::string End() && {
    text_.push_back('}');
    return std::move(text_);
  }

 private:
  void Raw(std::string_view name, std::string_view value) {
    text_.append(",\"").append(name).append("\":").append(value);
  }

  std::string text_;
};

}  // namespace

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxIdBytes && std::ranges::all_of(id, IsIdCharacter);
}

std::string ToLine(const Rollout& rollout) {
  if (!IsRequestId(rollout.request_id)) {
    Throw(ErrorCode::kInvalid, "record rollout {:?}: the id must be 1 to {} of [A-Za-z0-9._-]",
          rollout.request_id.substr(0, kMaxIdBytes), kMaxIdBytes);
  }
  Line line(rollout.request_id);
  line.Text("time", FormatTime(rollout.arrived));
  line.Text("gateway", rollout.gateway);
  line.Text("run", rollout.run);
  line.Text("session", rollout.session);
  line.Text("priority", rollout.priority);
  line.Text("island", rollout.island);
  line.Text("route", rollout.route);
  line.Count("status", std::optional(rollout.status));
  line.Count("version_start", rollout.version_start);
  line.Count("version_end", rollout.version_end);
  line.Count("lag_start", rollout.lag_start);
  line.Count("lag_end", rollout.lag_end);
  line.Milliseconds("queued_ms", rollout.queued_ms);
  line.Milliseconds("first_byte_ms", rollout.first_byte_ms);
  line.Milliseconds("total_ms", rollout.total_ms);
  line.Count("attempts", std::optional(rollout.attempts));
  line.Text("traceparent", rollout.traceparent);
  line.Json("request", rollout.request);
  line.Flag("streamed", rollout.streamed);
  line.Json("answer", rollout.answer);
  line.Flag("cut", rollout.cut);
  return std::move(line).End();
}

std::string_view IdOfLine(std::string_view line) {
  if (!line.starts_with(kFirstMember)) return {};
  line.remove_prefix(kFirstMember.size());
  const std::string_view id = line.substr(0, std::min(line.find('"'), line.size()));
  return id.size() < line.size() && IsRequestId(id) ? id : std::string_view();
}

std::optional<std::string> OnOneLine(std::string_view json) {
  if (!lane::IsUtf8(json)) return std::nullopt;
  try {
    lane::JsonReader reader(json);
    reader.Value();
    reader.End();
  } catch (const Error&) {
    return std::nullopt;
  }
  // Strings hold no control characters, so these stand between tokens.
  std::string line(json);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

}  // namespace isthmus::gateway
