#include "isthmus/lane/answer_stamp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "isthmus/lane/json_text.h"

namespace isthmus::lane {
namespace {

constexpr std::string_view kMetaInfo = "meta_info";
// Each character can be written as "\u0000".
constexpr size_t kMaxKeyBytes = kMetaInfo.size() * 6;

// Bytes that mean something outside of strings: everywhere, or among the members of a record.
constexpr uint8_t kEverywhere = 1;
constexpr uint8_t kAmongMembers = 2;
constexpr auto kMeanings = [] {
  std::array<uint8_t, 256> table{};
  for (const unsigned char byte : std::string_view("\"{}[]")) table[byte] = kEverywhere;
  table[','] = kAmongMembers;
  return table;
}();

void Append(std::string_view piece, AnswerStamp::Pieces* out) {
  if (!piece.empty()) out->push_back(piece);
}

// How many backslashes end text[begin, end).
size_t BackslashesBefore(std::string_view text, size_t begin, size_t end) {
  size_t at = end;
  while (at > begin && text[at - 1] == '\\') --at;
  return end - at;
}

}  // namespace

std::string StampMembers(board::VersionNumber start, board::VersionNumber end,
                         std::string_view spans) {
  return fmt::format(R"("weight_version_start":{},"weight_version_end":{}{}{})", start, end,
                     spans.empty() ? "" : ",", spans);
}

std::unique_ptr<AnswerStamp> MakeAnswerStamp(AnswerShape shape, std::string members) {
  if (shape == AnswerShape::kObject) return std::make_unique<ObjectStamp>(std::move(members));
  return std::make_unique<MetaInfoStamp>(std::move(members));
}

void ObjectStamp::Feed(std::string_view piece, Pieces* out) {
  released_.clear();
  Look(piece);
  if (beginning_ == Beginning::kOther) return Append(piece, out);
  const size_t last = piece.find_last_not_of(kJsonSpace);
  if (last == std::string_view::npos) {
    if (held_.empty()) return Append(piece, out);
    return Hold(piece, 0, out);
  }
  Release(out);
  if (piece[last] != '}') return Append(piece, out);
  Append(piece.substr(0, last), out);
  Hold(piece, last, out);
}

void ObjectStamp::Look(std::string_view piece) {
  if (beginning_ == Beginning::kOpen) return LookInside(piece);
  if (beginning_ != Beginning::kNothing) return;
  const size_t first = std::min(piece.find_first_not_of(kJsonSpace), piece.size());
  leading_ += first;
  if (first < piece.size() && piece[first] == '{') {
    beginning_ = Beginning::kOpen;
    LookInside(piece.substr(first + 1));
  } else if (first < piece.size() || leading_ > kMaxHeldBytes) {
    beginning_ = Beginning::kOther;
  }
}

void ObjectStamp::LookInside(std::string_view piece) {
  const size_t first = piece.find_first_not_of(kJsonSpace);
  if (first == std::string_view::npos) return;
  beginning_ = piece[first] == '}' ? Beginning::kEmptyObject : Beginning::kObject;
}

void ObjectStamp::Release(Pieces* out) {
  released_.swap(held_);
  held_.clear();
  Append(released_, out);
}

void ObjectStamp::Hold(std::string_view piece, size_t begin, Pieces* out) {
  const std::string_view more = piece.substr(begin);
  if (held_.size() + more.size() <= kMaxHeldBytes) {
    held_.append(more);
    return;
  }
  Release(out);
  Append(more, out);
}

void ObjectStamp::Finish(Pieces* out) {
  if (inserted_bytes().value_or(0) == 0) return;
  if (held_.empty()) {
    held_.assign(*inserted_bytes(), ' ');
    return Append(held_, out);
  }
  Append(beginning_ == Beginning::kEmptyObject ? " " : ",", out);
  Append(members_, out);
  Append(held_, out);
}

std::optional<size_t> ObjectStamp::inserted_bytes() const {
  if (beginning_ == Beginning::kNothing) return std::nullopt;
  return beginning_ == Beginning::kOther ? 0 : members_.size() + 1;
}

void MetaInfoStamp::Feed(std::string_view piece, Pieces* out) {
  passed_ = 0;
  for (size_t at = 0; at < piece.size() && phase_ != Phase::kBehind;) at = Step(piece, at, out);
  Append(piece.substr(passed_), out);
}

// Goes over at least one byte; returns where the next step begins.
size_t MetaInfoStamp::Step(std::string_view piece, size_t at, Pieces* out) {
  if (in_string_) return TakeString(piece, at);
  at = Skip(piece, at);
  if (at == piece.size()) return at;
  if (phase_ == Phase::kBefore) Begin(piece[at]);
  if (inserting_) Insert(piece, at, out);
  Take(piece[at]);
  return at + 1;
}

// Over what means nothing.
size_t MetaInfoStamp::Skip(std::string_view piece, size_t at) const {
  if (phase_ == Phase::kBefore || inserting_) {
    return std::min(piece.find_first_not_of(kJsonSpace, at), piece.size());
  }
  const auto wanted =
      static_cast<uint8_t>(AmongMembers() ? kEverywhere | kAmongMembers : kEverywhere);
  while (at < piece.size() && (kMeanings[static_cast<uint8_t>(piece[at])] & wanted) == 0) ++at;
  return at;
}

// The first byte of the text.
void MetaInfoStamp::Begin(char byte) {
  phase_ = byte == '{' || byte == '[' ? Phase::kInside : Phase::kBehind;
  record_depth_ = byte == '[' ? 2 : 1;
}

void MetaInfoStamp::Take(char byte) {
  switch (byte) {
    case '"':
      in_string_ = true;
      in_key_ = AmongMembers() && expected_ == Expected::kKey;
      key_.clear();
      if (!in_key_) expected_ = Expected::kOther;
      break;
    case '{':
    case '[':
      return Open(byte);
    case '}':
    case ']':
      return Close();
    case ',':
      if (AmongMembers()) expected_ = Expected::kKey;
      break;
    default:
      break;
  }
}

void MetaInfoStamp::Open(char byte) {
  inserting_ = AmongMembers() && expected_ == Expected::kMetaInfo && byte == '{';
  expected_ = Expected::kOther;
  if (++depth_ != record_depth_) return;
  in_record_ = byte == '{';
  if (in_record_) expected_ = Expected::kKey;
}

void MetaInfoStamp::Close() {
  if (depth_ == record_depth_) in_record_ = false;
  if (--depth_ == 0) phase_ = Phase::kBehind;
}

// Over a string's bytes, up to its end or the piece's.
size_t MetaInfoStamp::TakeString(std::string_view piece, size_t at) {
  size_t from = at + (escaped_ ? 1 : 0);
  escaped_ = false;
  while (true) {
    const size_t quote = std::min(piece.find('"', from), piece.size());
    const bool odd = BackslashesBefore(piece, from, quote) % 2 != 0;
    if (quote < piece.size() && odd) {
      from = quote + 1;
      continue;
    }
    KeepKey(piece.substr(at, quote - at));
    if (quote == piece.size()) {
      escaped_ = odd;
      return quote;
    }
    EndString();
    return quote + 1;
  }
}

void MetaInfoStamp::KeepKey(std::string_view part) {
  if (!in_key_) return;
  // One byte more than any spelling has says that it is none.
  key_.append(part.substr(0, kMaxKeyBytes + 1 - key_.size()));
}

void MetaInfoStamp::EndString() {
  in_string_ = false;
  if (!in_key_) return;
  in_key_ = false;
  const bool found = key_.size() <= kMaxKeyBytes && JsonStringIs('"' + key_ + '"', kMetaInfo);
  expected_ = found ? Expected::kMetaInfo : Expected::kOther;
}

void MetaInfoStamp::Insert(std::string_view piece, size_t at, Pieces* out) {
  inserting_ = false;
  Append(piece.substr(passed_, at - passed_), out);
  passed_ = at;
  Append(members_, out);
  if (piece[at] != '}') out->push_back(",");
}

}  // namespace isthmus::lane
