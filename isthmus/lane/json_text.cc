#include "isthmus/lane/json_text.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>

#include "isthmus/base/error.h"

namespace isthmus::lane {
namespace {

constexpr uint64_t Repeated(uint64_t byte) { return byte * 0x0101'0101'0101'0101; }

// Whether one of eight bytes ends a run of plain characters: '"', '\\' or a control character.
bool HasSpecial(uint64_t bytes) {
  const uint64_t quote = bytes ^ Repeated('"');
  const uint64_t backslash = bytes ^ Repeated('\\');
  return ((((quote - Repeated(1)) & ~quote) | ((backslash - Repeated(1)) & ~backslash) |
           ((bytes - Repeated(0x20)) & ~bytes)) &
          Repeated(0x80)) != 0;
}

bool IsSpecial(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

// Where the plain characters of a string end that begin at `at`. Images come in strings of
// megabytes, so eight bytes at a time.
size_t PlainEnd(std::string_view text, size_t at) {
  for (uint64_t bytes = 0; at + sizeof bytes <= text.size(); at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    if (HasSpecial(bytes)) break;
  }
  while (at < text.size() && !IsSpecial(text[at])) ++at;
  return at;
}

bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

void AppendUtf8(uint32_t point, std::string* out) {
  const auto add = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  const auto add_low = [&](uint32_t shift) { add(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x1'0000) {
    add(0xE0 | point >> 12);
    add_low(6);
  } else {
    add(0xF0 | point >> 18);
    add_low(12);
    add_low(6);
  }
  add_low(0);
}

// Takes the four digits behind "\u" off the front.
std::optional<uint32_t> TakeUnit(std::string_view* rest) {
  const std::string_view digits = rest->substr(0, 4);
  uint32_t unit = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), unit, 16);
  if (end != digits.begin() + 4 || error != std::errc()) return std::nullopt;
  rest->remove_prefix(4);
  return unit;
}

// The same, with the second half of a pair. False if that is missing.
bool TakeUnicode(std::string_view* rest, std::string* out) {
  auto point = TakeUnit(rest);
  if (!point) return false;
  if (*point >= 0xD800 && *point < 0xE000) {
    if (*point >= 0xDC00 || !rest->starts_with("\\u")) return false;
    rest->remove_prefix(2);
    const auto low = TakeUnit(rest);
    if (!low || *low < 0xDC00 || *low >= 0xE000) return false;
    point = 0x1'0000 + ((*point - 0xD800) << 10) + (*low - 0xDC00);
  }
  AppendUtf8(*point, out);
  return true;
}

char SimpleEscape(char c) {
  constexpr std::string_view kLetters = "bfnrt";
  constexpr std::string_view kCharacters = "\b\f\n\r\t";
  const size_t found = kLetters.find(c);
  return found == std::string_view::npos ? c : kCharacters[found];
}

}  // namespace

bool IsUtf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::optional<std::string> DecodeJsonString(std::string_view quoted) {
  std::string_view rest = quoted.substr(1, quoted.size() - 2);
  std::string decoded;
  while (!rest.empty()) {
    const size_t plain = std::min(rest.find('\\'), rest.size());
    decoded.append(rest.substr(0, plain));
    rest.remove_prefix(plain);
    if (rest.empty()) break;
    if (rest.size() == 1) return std::nullopt;
    const char kind = rest[1];
    rest.remove_prefix(2);
    if (kind != 'u') {
      decoded.push_back(SimpleEscape(kind));
    } else if (!TakeUnicode(&rest, &decoded)) {
      return std::nullopt;
    }
  }
  return decoded;
}

bool JsonStringIs(std::string_view quoted, std::string_view text) {
  if (quoted.size() == text.size() + 2) return quoted.substr(1, text.size()) == text;
  // Escaped characters take two to six bytes each.
  if (quoted.size() > 6 * text.size() + 2) return false;
  return quoted.find('\\') != std::string_view::npos && DecodeJsonString(quoted) == text;
}

char JsonReader::Next() {
  while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::string_view JsonReader::Value() {
  Next();
  const size_t begin = at_;
  size_t depth = 0;
  while (Open(&depth) || !Leave(&depth)) {
  }
  return text_.substr(begin, at_ - begin);
}

// Takes a value, or only the beginning of one that holds others: then true, and one of these comes
// next.
bool JsonReader::Open(size_t* depth) {
  const char first = Next();
  const bool object = first == '{';
  if (!object && first != '[') {
    Scalar(first);
    return false;
  }
  if (*depth == kMaxJsonDepth) Fail(fmt::format("a nesting of at most {}", kMaxJsonDepth));
  ++at_;
  if (Next() == (object ? '}' : ']')) {
    ++at_;
    return false;
  }
  in_object_[(*depth)++] = object;
  if (object) Key();
  return true;
}

// Behind a value: takes the ends of all that end with it, up to where the next one begins. True if
// the outermost has ended.
bool JsonReader::Leave(size_t* depth) {
  for (; *depth > 0; --*depth) {
    const bool object = in_object_[*depth - 1];
    if (!More(object ? '}' : ']')) continue;
    if (object) Key();
    return false;
  }
  return true;
}

std::string_view JsonReader::Key() {
  if (Next() != '"') Fail("a key in quotes");
  const std::string_view key = String();
  Take(':', "':'");
  return key;
}

std::string_view JsonReader::String() {
  const size_t begin = at_++;
  while (true) {
    at_ = PlainEnd(text_, at_);
    if (at_ == text_.size()) Fail("'\"'");
    if (text_[at_] == '"') return text_.substr(begin, ++at_ - begin);
    if (text_[at_] != '\\') Fail("an escape for a control character");
    ++at_;
    Escape();
  }
}

void JsonReader::Escape() {
  if (at_ == text_.size() || std::string_view("\"\\/bfnrtu").find(text_[at_]) == text_.npos) {
    Fail("one of \"\\/bfnrtu");
  }
  if (text_[at_++] != 'u') return;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ == text_.size() || !IsHex(text_[at_])) Fail("a hexadecimal digit");
  }
}

void JsonReader::Scalar(char first) {
  if (first == '"') {
    String();
    return;
  }
  if (first == '-' || IsDigit(first)) return Number();
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!text_.substr(at_).starts_with(word)) continue;
    at_ += word.size();
    return;
  }
  Fail("a value");
}

void JsonReader::Number() {
  TakeIf('-');
  if (!TakeIf('0')) Digits();
  if (TakeIf('.')) Digits();
  if (!TakeIf('e') && !TakeIf('E')) return;
  if (!TakeIf('+')) TakeIf('-');
  Digits();
}

void JsonReader::Digits() {
  if (at_ == text_.size() || !IsDigit(text_[at_])) Fail("a digit");
  while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
}

bool JsonReader::TakeIf(char byte) {
  if (at_ == text_.size() || text_[at_] != byte) return false;
  ++at_;
  return true;
}

void JsonReader::Take(char byte, std::string_view allowed) {
  if (Next() != byte) Fail(allowed);
  ++at_;
}

bool JsonReader::More(char close) {
  const char next = Next();
  if (next != ',' && next != close) Fail(close == '}' ? "',' or '}'" : "',' or ']'");
  ++at_;
  return next == ',';
}

void JsonReader::End() {
  Next();
  if (at_ < text_.size()) Fail("the end");
}

void JsonReader::Fail(std::string_view allowed) const {
  if (at_ == text_.size()) {
    Throw(ErrorCode::kInvalid, "byte {}: the text ends, allowed is {}", at_, allowed);
  }
  Throw(ErrorCode::kInvalid, "byte {}: found {:?}, allowed is {}", at_, text_.substr(at_, 1),
        allowed);
}

}  // namespace isthmus::lane
