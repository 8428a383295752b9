// Reads JSON (RFC 8259) where it stands: values are handed out as the bytes that spell them, so
// that numbers keep their digits, whatever their size, and what is not looked at is not copied.
// Strict: what it passes over is checked as what it hands out. Pure; memory does not grow with the
// text.
//
// Parsers that make values of numbers (simdjson, Boost.JSON) refuse or round those that no double
// or 64-bit integer holds; here such texts pass, as they do in the engines' parser.
//
// All errors are kInvalid and say at which byte what was found and what is allowed.
#ifndef ISTHMUS_LANE_JSON_TEXT_H_
#define ISTHMUS_LANE_JSON_TEXT_H_

#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace isthmus::lane {

// What JSON calls white space.
inline constexpr std::string_view kJsonSpace = " \t\r\n";

// How deep values may be nested in one that is read: more than the engines' own parsers allow.
inline constexpr size_t kMaxJsonDepth = 1'024;

// Goes over one text from front to back. All views point into that text.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  // Skips white space. The byte that follows; NUL, which begins no token, at the end.
  char Next();
  // Takes a value of any kind: the bytes that spell it.
  std::string_view Value();
  // Takes an object, and calls visit(key, value) for each member, in order. The key is a string in
  // quotes, with its escapes (JsonStringIs, DecodeJsonString). Keys may be there more than once.
  template <typename Visit>
  void Members(const Visit& visit);
  // Takes a list, and calls visit(value) for each element.
  template <typename Visit>
  void Elements(const Visit& visit);
  // Nothing but white space may follow.
  void End();

 private:
  bool Open(size_t* depth);
  bool Leave(size_t* depth);
  std::string_view Key();
  std::string_view String();
  void Escape();
  void Scalar(char first);
  void Number();
  void Digits();
  bool TakeIf(char byte);
  void Take(char byte, std::string_view allowed);
  bool More(char close);
  [[noreturn]] void Fail(std::string_view allowed) const;

  std::string_view text_;
  size_t at_ = 0;
  // Of the values that Value is in, by depth: whether it is an object. Here, because to set it to
  // zeros for each value would take longer than most values.
  std::bitset<kMaxJsonDepth> in_object_;
};

// Whether `text` is UTF-8, as JSON must be; the reader does not look.
bool IsUtf8(std::string_view text);

// A string in quotes as the reader hands it out, decoded to UTF-8; nullopt if it has half of a
// surrogate pair, which is no character. Of strings that no reader has checked, too, any two quotes
// with bytes between them: nullopt if an escape is cut short or has no hexadecimal digits.
std::optional<std::string> DecodeJsonString(std::string_view quoted);
// Whether it spells `text`, in whichever way. As above.
bool JsonStringIs(std::string_view quoted, std::string_view text);

template <typename Visit>
void JsonReader::Members(const Visit& visit) {
  Take('{', "an object");
  if (Next() == '}') return Take('}', "'}'");
  do {
    const std::string_view key = Key();
    visit(key, Value());
  } while (More('}'));
}

template <typename Visit>
void JsonReader::Elements(const Visit& visit) {
  Take('[', "a list");
  if (Next() == ']') return Take(']', "']'");
  do {
    visit(Value());
  } while (More(']'));
}

}  // namespace isthmus::lane

#endif  // ISTHMUS_LANE_JSON_TEXT_H_
