// The XML of S3's answers, read by expat. Input from outside: no document type, so no entities and
// no expansion; depth and count are bounded.
#ifndef ISTHMUS_STORE_XML_H_
#define ISTHMUS_STORE_XML_H_

#include <string>
#include <string_view>
#include <vector>

namespace isthmus::store {

// An element that holds no other, in the order of the document.
struct XmlLeaf {
  std::string path;  // names from the root, without namespaces: "ListBucketResult/Contents/Key"
  std::string text;
};

// kCorrupt for what is not well-formed, has a DOCTYPE, is nested deeper than 16 or has more than
// 100,000 elements. The caller bounds the size of `document`.
std::vector<XmlLeaf> ParseXml(std::string_view document);

// The text of the first leaf of this path, empty if there is none.
std::string TextAt(const std::vector<XmlLeaf>& leaves, std::string_view path);

}  // namespace isthmus::store

#endif  // ISTHMUS_STORE_XML_H_
