#include "isthmus/lane/event_stamp.h"

#include <algorithm>
#include <optional>

#include "isthmus/lane/json_text.h"

namespace isthmus::lane {
namespace {

// The value of a line with the field "data"; nullopt for all other lines.
std::optional<std::string_view> DataOf(std::string_view line) {
  if (!line.starts_with("data")) return std::nullopt;
  line.remove_prefix(4);
  if (line.empty()) return line;
  if (!line.starts_with(':')) return std::nullopt;
  line.remove_prefix(1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// The data in the event's raw bytes, if it lies there in one piece: on one line.
std::optional<std::string_view> DataInRaw(const net::SseEvent& event) {
  std::string_view rest = event.raw;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  std::optional<std::string_view> found;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of("\r\n"), rest.size());
    if (const auto data = DataOf(rest.substr(0, end))) {
      if (found) return std::nullopt;
      found = data;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return found;
}

bool IsStamped(std::string_view data, AnswerShape shape) {
  const size_t first = data.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return false;
  const char last = data[data.find_last_not_of(kJsonSpace)];
  if (data[first] == '{') return last == '}';
  return shape == AnswerShape::kMetaInfo && data[first] == '[' && last == ']';
}

void AppendData(std::string_view data, AnswerStamp* stamp, std::string* out) {
  AnswerStamp::Pieces pieces;
  stamp->Feed(data, &pieces);
  for (const std::string_view piece : pieces) out->append(piece);
  pieces.clear();
  stamp->Finish(&pieces);
  for (const std::string_view piece : pieces) out->append(piece);
}

}  // namespace

void AppendStamped(const net::SseEvent& event, AnswerShape shape, const std::string& members,
                   std::string* out) {
  const auto data = DataInRaw(event);
  if (!data || !IsStamped(*data, shape)) {
    out->append(event.raw);
    return;
  }
  const auto before = static_cast<size_t>(data->data() - event.raw.data());
  out->append(event.raw.substr(0, before));
  AppendData(*data, MakeAnswerStamp(shape, members).get(), out);
  out->append(event.raw.substr(before + data->size()));
}

}  // namespace isthmus::lane
