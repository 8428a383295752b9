#include "isthmus/net/sse.h"

#include <algorithm>

#include "isthmus/base/error.h"

namespace isthmus::net {

void SseSplitter::Feed(std::string_view piece, const Sink& sink) {
  while (!piece.empty()) {
    // All up to the next line end goes in one step.
    const size_t plain = std::min(piece.find_first_of("\r\n"), piece.size());
    const size_t taken = std::min(plain, max_event_bytes_ - raw_.size());
    raw_.append(piece.substr(0, taken));
    if (plain > 0) after_cr_ = false;
    piece.remove_prefix(taken);
    if (piece.empty()) return;
    if (taken < plain || raw_.size() == max_event_bytes_) {
      Throw(ErrorCode::kCorrupt, "event stream: an event of more than {} bytes", max_event_bytes_);
    }
    Take(piece.front(), sink);
    piece.remove_prefix(1);
  }
}

void SseSplitter::Take(char byte, const Sink& sink) {
  const size_t line_end = raw_.size();
  raw_.push_back(byte);
  if (byte == '\n' && after_cr_) {
    after_cr_ = false;
    line_ = raw_.size();
    return;
  }
  after_cr_ = byte == '\r';
  EndLine(line_end, sink);
}

void SseSplitter::EndLine(size_t line_end, const Sink& sink) {
  std::string_view line = raw_;
  line = line.substr(line_, line_end - line_);
  if (first_line_ && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  first_line_ = false;
  line_ = raw_.size();
  if (line.empty()) {
    HandOut(sink);
  } else {
    UseLine(line);
  }
}

void SseSplitter::UseLine(std::string_view line) {
  const size_t colon = std::min(line.find(':'), line.size());
  std::string_view value = line.substr(std::min(colon + 1, line.size()));
  if (value.starts_with(' ')) value.remove_prefix(1);
  UseField(line.substr(0, colon), value);
}

void SseSplitter::UseField(std::string_view name, std::string_view value) {
  if (name == "data") {
    if (has_data_) data_.push_back('\n');
    data_.append(value);
    has_data_ = true;
  } else if (name == "event") {
    event_ = value;
  } else if (name == "id" && value.find('\0') == value.npos) {
    id_ = value;
  } else if (name == "retry" && value.find_first_not_of("0123456789") == value.npos) {
    retry_ = value;
  }
}

void SseSplitter::HandOut(const Sink& sink) {
  sink({raw_, event_, data_, id_, retry_, has_data_});
  for (std::string* text : {&raw_, &event_, &data_, &id_, &retry_}) text->clear();
  line_ = 0;
  has_data_ = false;
}

}  // namespace isthmus::net
