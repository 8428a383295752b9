// Server-sent events: splits a stream of bytes into events. No I/O.
#ifndef ISTHMUS_NET_SSE_H_
#define ISTHMUS_NET_SSE_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace isthmus::net {

// One event, or one block of comments. The views live during the call that hands it out.
struct SseEvent {
  // All bytes of the event, its blank line included. The raw bytes of all events, in order, and
  // then SseSplitter::rest() are the stream: what is not changed can be passed on byte for byte.
  std::string_view raw;
  std::string_view event;  // empty: "message"
  std::string_view data;   // lines joined by LF
  std::string_view id;     // of this event's own id line; empty if it has none
  std::string_view retry;  // digits, in milliseconds; empty if there is none
  bool has_data = false;   // by the standard, events without data are not dispatched: keep-alives
};

// Takes the stream in pieces cut anywhere, also between CR and LF, and hands out each event at the
// byte that completes it: nothing waits for the next piece. Lines end in CRLF, LF or CR, mixed as
// they come; a byte order mark at the start is skipped. After a CR that completed an event, an LF
// that follows belongs to the next event's raw bytes.
class SseSplitter {
 public:
  using Sink = std::function<void(const SseEvent&)>;

  // An event may have at most so many raw bytes; this bounds memory.
  explicit SseSplitter(size_t max_event_bytes) : max_event_bytes_(max_event_bytes) {}

  // Throws kCorrupt for an event that is too large; the splitter is then of no more use. What
  // `sink` throws passes through, and the events of the piece that were not handed out are lost.
  void Feed(std::string_view piece, const Sink& sink);

  // What came after the last event: at the end of the stream an event that was cut short.
  std::string_view rest() const { return raw_; }

 private:
  void Take(char byte, const Sink& sink);
  void EndLine(size_t line_end, const Sink& sink);
  void UseLine(std::string_view line);
  void UseField(std::string_view name, std::string_view value);
  void HandOut(const Sink& sink);

  size_t max_event_bytes_;
  std::string raw_;
  size_t line_ = 0;         // where the current line begins in raw_
  bool after_cr_ = false;   // an LF now belongs to the line end before it
  bool first_line_ = true;  // a byte order mark may come
  std::string event_, data_, id_, retry_;
  bool has_data_ = false;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_SSE_H_
