// JSON answers, cut into pieces, next to what a reader of the whole text finds. u8 size of pieces,
// then the text.
#include "isthmus/lane/answer_stamp.h"

#include "fuzz/fuzz.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::fuzz {
namespace {

using lane::AnswerShape;
using lane::AnswerStamp;
using lane::JsonReader;

constexpr std::string_view kMembers = R"("s":41,"e":42)";

std::string Stamped(AnswerShape shape, std::string_view text, size_t step) {
  const auto stamp = MakeAnswerStamp(shape, std::string(kMembers));
  const size_t size = text.size();
  std::string out;
  AnswerStamp::Pieces pieces;
  const auto take = [&] {
    for (const std::string_view piece : pieces) out.append(piece);
    pieces.clear();
  };
  while (!text.empty()) {
    // A copy of its own: a sanitizer sees views that are kept for too long.
    const std::string piece(text.substr(0, step));
    stamp->Feed(piece, &pieces);
    take();
    text.remove_prefix(piece.size());
    Require(out.size() + AnswerStamp::kMaxHeldBytes + text.size() >= size, "too much is held");
  }
  stamp->Finish(&pieces);
  take();
  const auto inserted = stamp->inserted_bytes();
  if (inserted) Require(out.size() == size + *inserted, "a promised length is not kept");
  return out;
}

// Where the members go, by a reader of the whole text.
class Places {
 public:
  explicit Places(std::string_view text) : text_(text) {}

  std::vector<size_t> Find() {
    JsonReader reader(text_);
    const std::string_view value = reader.Value();
    reader.End();
    if (value.starts_with('{')) Record(value);
    if (value.starts_with('[')) {
      JsonReader(value).Elements([&](std::string_view element) {
        if (element.starts_with('{')) Record(element);
      });
    }
    return places_;
  }

 private:
  void Record(std::string_view object) {
    JsonReader(object).Members([&](std::string_view key, std::string_view value) {
      if (!lane::JsonStringIs(key, "meta_info") || !value.starts_with('{')) return;
      places_.push_back(text_.find_first_not_of(lane::kJsonSpace, value.data() + 1 - text_.data()));
    });
  }

  std::string_view text_;
  std::vector<size_t> places_;
};

std::string ExpectedMetaInfo(std::string_view text, const std::vector<size_t>& places) {
  std::string expected;
  size_t at = 0;
  for (const size_t place : places) {
    expected.append(text.substr(at, place - at)).append(kMembers);
    if (text[place] != '}') expected.push_back(',');
    at = place;
  }
  return expected.append(text.substr(at));
}

std::string ExpectedObject(std::string_view text) {
  const size_t last = text.rfind('}');
  const bool empty = text.find_first_not_of(lane::kJsonSpace, text.find('{') + 1) == last;
  std::string expected(text.substr(0, last));
  return expected.append(empty ? " " : ",").append(kMembers).append(text.substr(last));
}

void FuzzStamps(std::string_view text, size_t step) {
  const std::string object = Stamped(AnswerShape::kObject, text, step);
  const std::string meta_info = Stamped(AnswerShape::kMetaInfo, text, step);
  Require(object == Stamped(AnswerShape::kObject, text, text.size()), "cuts change an object");
  Require(meta_info == Stamped(AnswerShape::kMetaInfo, text, text.size()), "cuts change meta_info");

  std::vector<size_t> places;
  if (!Succeeds([&] { places = Places(text).Find(); }, {ErrorCode::kInvalid})) return;
  Require(meta_info == ExpectedMetaInfo(text, places), "meta_info is stamped otherwise");
  const bool is_object = JsonReader(text).Next() == '{';
  Require(object == (is_object ? ExpectedObject(text) : text), "an object is stamped otherwise");
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::Input in(data, size);
  const size_t step = 1 + in.U8();
  isthmus::fuzz::FuzzStamps(isthmus::AsText(in.rest()), step);
  return 0;
}
