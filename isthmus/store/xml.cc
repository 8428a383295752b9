#include "isthmus/store/xml.h"

#include <expat.h>

#include <algorithm>
#include <memory>
#include <type_traits>

#include "isthmus/base/error.h"

namespace isthmus::store {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxElements = 100'000;  // a page of a listing has 1000 keys, each a few elements

struct ParserDeleter {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};
using Parser = std::unique_ptr<std::remove_pointer_t<XML_Parser>, ParserDeleter>;

// What expat tells, in one pass. Its callbacks must not throw: they stop it and leave the reason.
class LeafReader {
 public:
  explicit LeafReader(XML_Parser parser) : parser_(parser) {}

  void Begin(std::string_view name) {
    name.remove_prefix(name.find(':') + 1);  // npos + 1 == 0
    if (starts_.size() == kMaxDepth) return Stop("nested deeper than 16");
    if (++elements_ > kMaxElements) return Stop("more than 100000 elements");
    starts_.push_back(path_.size());
    path_.append(path_.empty() ? "" : "/").append(name);
    text_.clear();
    is_leaf_ = true;
  }
  void End() {
    if (is_leaf_) leaves.push_back({path_, text_});
    path_.resize(starts_.back());
    starts_.pop_back();
    is_leaf_ = false;
  }
  void Text(std::string_view text) {
    if (is_leaf_) text_.append(text);
  }
  void Stop(const char* why) {
    reason = why;
    XML_StopParser(parser_, XML_FALSE);
  }

  std::vector<XmlLeaf> leaves;
  const char* reason = nullptr;

 private:
  XML_Parser parser_;
  std::string path_;
  std::vector<size_t> starts_;
  std::string text_;
  size_t elements_ = 0;
  bool is_leaf_ = false;
};

LeafReader* ReaderOf(void* data) { return static_cast<LeafReader*>(data); }

void OnStart(void* data, const XML_Char* name, const XML_Char** /*attributes*/) {
  ReaderOf(data)->Begin(name);
}
void OnEnd(void* data, const XML_Char* /*name*/) { ReaderOf(data)->End(); }
void OnText(void* data, const XML_Char* text, int size) {
  ReaderOf(data)->Text({text, static_cast<size_t>(size)});
}
void OnDoctype(void* data, const XML_Char* /*name*/, const XML_Char* /*system*/,
               const XML_Char* /*public_id*/, int /*internal*/) {
  ReaderOf(data)->Stop("it has a DOCTYPE");
}

}  // namespace

std::vector<XmlLeaf> ParseXml(std::string_view document) {
  const Parser parser(XML_ParserCreate("UTF-8"));
  if (!parser) Throw(ErrorCode::kUnavailable, "read XML: out of memory");
  LeafReader reader(parser.get());
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetCharacterDataHandler(parser.get(), OnText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  const int size = static_cast<int>(std::min<size_t>(document.size(), 1 << 30));
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): the size is the next argument
  if (XML_Parse(parser.get(), document.data(), size, XML_TRUE) == XML_STATUS_OK) {
    return std::move(reader.leaves);
  }
  const char* const why =
      reader.reason != nullptr ? reader.reason : XML_ErrorString(XML_GetErrorCode(parser.get()));
  Throw(ErrorCode::kCorrupt, "read XML: line {}: {}", XML_GetCurrentLineNumber(parser.get()), why);
}

std::string TextAt(const std::vector<XmlLeaf>& leaves, std::string_view path) {
  const auto found = std::ranges::find(leaves, path, &XmlLeaf::path);
  return found == leaves.end() ? "" : found->text;
}

}  // namespace isthmus::store
