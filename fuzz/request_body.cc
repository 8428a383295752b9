// JSON bodies of requests: which are taken, next to what simdjson takes, and what edits leave.
#include "isthmus/lane/request_body.h"

#include <simdjson.h>

#include "fuzz/fuzz.h"
#include "isthmus/lane/json_text.h"

namespace isthmus::fuzz {
namespace {

using lane::JsonReader;
using lane::RequestBody;

constexpr std::string_view kSaltField = "cache_salt";

bool IsJsonObject(std::string_view text) {
  return lane::IsUtf8(text) && Succeeds(
                                   [&] {
                                     JsonReader reader(text);
                                     reader.Members([](auto...) {});
                                     reader.End();
                                   },
                                   {ErrorCode::kInvalid});
}

// simdjson refuses numbers that it has no type for, half pairs, and a nesting that counts the
// outermost object too; some versions of it skip a byte order mark.
void CompareWithSimdjson(std::string_view text, bool taken) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const simdjson::padded_string padded(text);
  const auto error = parser.parse(padded).get(object);
  if (error == simdjson::SUCCESS && !text.starts_with("\xef\xbb\xbf")) {
    Require(taken, "a JSON object is refused");
  }
  const bool stricter = error == simdjson::NUMBER_ERROR || error == simdjson::STRING_ERROR ||
                        error == simdjson::DEPTH_ERROR;
  if (taken) Require(error == simdjson::SUCCESS || stricter, "what is no JSON object is taken");
}

void CheckEdits(std::string_view text, const RequestBody& body) {
  const std::string edited = body.Edited("s.1");
  Require(IsJsonObject(edited), "an edited body is no JSON object");
  const RequestBody again(edited, kSaltField);
  Require(again.constraint() == lane::Constraint(), "an edited body still has a constraint");
  Require(again.user_salt() == "s.1", "an edited body has another salt");
  Require(again.stream() == body.stream(), "an edit changes another member");
  Require(again.Edited("s.1") == edited, "an edited body is edited again");
  // Without a salt's field, edits only take away.
  const RequestBody plain(text, "");
  Require(plain.Edited("").size() <= text.size(), "a body grows");
}

void FuzzRequestBody(std::string_view text) {
  const bool json = IsJsonObject(text);
  CompareWithSimdjson(text, json);
  const bool taken =
      Succeeds([&] { CheckEdits(text, RequestBody(text, kSaltField)); }, {ErrorCode::kInvalid});
  Require(json || !taken, "a body that is no JSON object is taken");
}

}  // namespace
}  // namespace isthmus::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isthmus::fuzz::FuzzRequestBody(isthmus::fuzz::TextOf(data, size));
  return 0;
}
