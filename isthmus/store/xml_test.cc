#include "isthmus/store/xml.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace isthmus::store {
namespace {

using testing::ExpectError;

TEST(ParseXmlTest, GivesLeavesWithTheirPaths) {
  const auto leaves = ParseXml(
      "<?xml version=\"1.0\"?>\n<s:List xmlns:s=\"urn:x\">\n "
      "<C><Key>a&amp;b</Key><Size>1</Size></C>"
      "<C><Key>\n c&#65;</Key></C><Empty/></s:List>");
  ASSERT_EQ(leaves.size(), 4u);
  EXPECT_EQ(leaves[0].path, "List/C/Key");
  EXPECT_EQ(leaves[0].text, "a&b");
  EXPECT_EQ(leaves[2].text, "\n cA");
  EXPECT_EQ(leaves[3].path, "List/Empty");
  EXPECT_EQ(TextAt(leaves, "List/C/Size"), "1");
  EXPECT_EQ(TextAt(leaves, "List/C/None"), "");
}

TEST(ParseXmlTest, BytesThatAreNoXmlAreCorrupt) {
  for (const std::string bad :
       {"", "x", "<a>", "<a></b>", "<a/><b/>", "<a>&nope;</a>", "<a>\xFF</a>"}) {
    SCOPED_TRACE(bad);
    ExpectError(
        ErrorCode::kCorrupt, [&] { ParseXml(bad); }, "read XML");
  }
  const std::string good = "<a><b>x</b></a>";
  for (size_t size = 0; size < good.size(); ++size) {
    ExpectError(ErrorCode::kCorrupt, [&] { ParseXml(good.substr(0, size)); });
  }
}

TEST(ParseXmlTest, EntitiesCannotBeDeclared) {
  std::string bomb = "<!DOCTYPE b [<!ENTITY a \"aaaaaaaaaa\">";
  for (char c = 'b'; c < 'k'; ++c) {
    bomb += std::string("<!ENTITY ") + c + " \"";
    for (int i = 0; i < 10; ++i) bomb += std::string("&") + static_cast<char>(c - 1) + ";";
    bomb += "\">";
  }
  bomb += "]><b>&j;</b>";
  ExpectError(
      ErrorCode::kCorrupt, [&] { ParseXml(bomb); }, "DOCTYPE");
  ExpectError(
      ErrorCode::kCorrupt,
      [] { ParseXml("<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>"); },
      "DOCTYPE");
}

TEST(ParseXmlTest, DepthAndCountAreBounded) {
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i) deep += "<a>";
  ExpectError(
      ErrorCode::kCorrupt, [&] { ParseXml(deep); }, "deeper than 16");
  std::string wide = "<a>";
  for (int i = 0; i < 100'000; ++i) wide += "<b/>";
  ExpectError(
      ErrorCode::kCorrupt, [&] { ParseXml(wide + "</a>"); }, "more than 100000");
}

}  // namespace
}  // namespace isthmus::store
