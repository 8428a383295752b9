#include "isthmus/engine/routes.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>
#include <vector>

#include "isthmus/base/error.h"

namespace isthmus::engine {

namespace json = boost::json;

namespace {

// A path as one step of a JSON pointer (RFC 6901 3).
std::string Escaped(std::string_view path) {
  std::string step;
  for (const char c : path) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  return step;
}

// Where the document describes a route: "/paths/~1pause/post".
std::string OperationOf(std::string_view route) {
  const size_t blank = route.find(' ');
  std::string method(route.substr(0, blank));
  for (char& c : method) c = static_cast<char>(c | 0x20);
  return fmt::format("/paths/{}/{}", Escaped(route.substr(blank + 1)), method);
}

const json::value* Member(const json::value& value, std::string_view name) {
  const json::object* object = value.if_object();
  return object == nullptr ? nullptr : object->if_contains(name);
}

bool IsText(const json::value* value, std::string_view text) {
  const json::string* found = value == nullptr ? nullptr : value->if_string();
  return found != nullptr && std::string_view(found->data(), found->size()) == text;
}

}  // namespace

Routes::Routes(Document document) : document_(std::move(document)) { document_->Object("/paths"); }

bool Routes::Has(std::string_view route) const {
  return document_ && document_->Find(OperationOf(route)) != nullptr;
}

void Routes::Require(std::string_view engine, std::span<const std::string_view> needed,
                     std::string_view hint) const {
  std::vector<std::string_view> missing;
  for (const std::string_view route : needed) {
    if (!Has(route)) missing.push_back(route);
  }
  if (missing.empty()) return;
  Throw(ErrorCode::kInvalid,
        "{}: GET /openapi.json does not list {}, without which no switch is "
        "safe: {}",
        engine, fmt::join(missing, ", "), hint);
}

const json::value* Routes::Parameter(std::string_view route, std::string_view name) const {
  const json::value* all = document_->Find(OperationOf(route) + "/parameters");
  const json::array* parameters = all == nullptr ? nullptr : all->if_array();
  if (parameters == nullptr) return nullptr;
  for (const json::value& one : *parameters) {
    if (IsText(Member(one, "name"), name)) return &one;
  }
  return nullptr;
}

std::optional<bool> Routes::TakesQuery(std::string_view route, std::string_view name) const {
  if (document_->Find(OperationOf(route) + "/parameters") == nullptr) return std::nullopt;
  return Parameter(route, name) != nullptr;
}

std::optional<bool> Routes::TakesQueryValue(std::string_view route, std::string_view name,
                                            std::string_view value) const {
  const std::optional<bool> taken = TakesQuery(route, name);
  if (taken != true) return taken;
  const json::value* schema = Member(*Parameter(route, name), "schema");
  const json::value* values = schema == nullptr ? nullptr : Member(*schema, "enum");
  const json::array* list = values == nullptr ? nullptr : values->if_array();
  if (list == nullptr) return std::nullopt;
  for (const json::value& one : *list) {
    if (IsText(&one, value)) return true;
  }
  return false;
}

std::optional<bool> Routes::TakesField(std::string_view route, std::string_view field) const {
  std::string schema = OperationOf(route) + "/requestBody/content/application~1json/schema";
  const json::value* reference = document_->Find(schema + "/$ref");
  const json::string* target = reference == nullptr ? nullptr : reference->if_string();
  // "#/components/schemas/NAME": after the mark, a JSON pointer.
  if (target != nullptr && target->starts_with("#/")) schema = target->subview(1);
  const json::value* properties = document_->Find(schema + "/properties");
  if (properties == nullptr || !properties->is_object()) return std::nullopt;
  return properties->get_object().contains(field);
}

Task<Routes> FetchRoutes(Control& control, Budget budget) {
  const Answer answer = co_await control.TryGet(budget, "/openapi.json");
  if (answer.status() == 404) {
    Throw(ErrorCode::kInvalid,
          "{}: GET /openapi.json: status 404: nothing says what this server offers; an engine must "
          "run with its API documents on (vLLM: without --disable-fastapi-docs)",
          control.engine());
  }
  answer.RequireSuccess();
  co_return Routes(answer.Json());
}

std::string SaltField(const Routes& routes, std::string_view route) {
  for (const std::string_view name : {"cache_salt", "extra_key"}) {
    if (routes.TakesField(route, name).value_or(true)) return std::string(name);
  }
  return "";
}

}  // namespace isthmus::engine
