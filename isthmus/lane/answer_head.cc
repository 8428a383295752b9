#include "isthmus/lane/answer_head.h"

namespace isthmus::lane {
namespace {

bool HasType(const net::ResponseHead& head, std::string_view type) {
  const std::string_view value = head.headers.Find("Content-Type").value_or("");
  return net::EqualsIgnoreCase(net::TrimBlanks(value.substr(0, value.find(';'))), type);
}

}  // namespace

bool IsEventStream(const net::ResponseHead& head) { return HasType(head, "text/event-stream"); }
bool IsJson(const net::ResponseHead& head) { return HasType(head, "application/json"); }

}  // namespace isthmus::lane
