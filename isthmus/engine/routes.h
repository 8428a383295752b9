// What an engine offers, as its OpenAPI document says.
#ifndef ISTHMUS_ENGINE_ROUTES_H_
#define ISTHMUS_ENGINE_ROUTES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "isthmus/engine/answer.h"
#include "isthmus/engine/control.h"

namespace isthmus::engine {

// Routes are written "POST /pause". Questions about what a route takes are answered by nullopt
// where the document does not say, which documents made by hand often do not.
class Routes {
 public:
  Routes() = default;
  // kCorrupt if it has no paths.
  explicit Routes(Document document);

  bool Has(std::string_view route) const;
  // kInvalid if one of them is not there, naming all that are not; `hint` says what to do.
  void Require(std::string_view engine, std::span<const std::string_view> needed,
               std::string_view hint) const;

  std::optional<bool> TakesQuery(std::string_view route, std::string_view name) const;
  // Whether this is among the values that a query parameter may have.
  std::optional<bool> TakesQueryValue(std::string_view route, std::string_view name,
                                      std::string_view value) const;
  std::optional<bool> TakesField(std::string_view route, std::string_view field) const;

 private:
  const boost::json::value* Parameter(std::string_view route, std::string_view name) const;

  std::optional<Document> document_;
};

// GET /openapi.json. kInvalid if there is none: what an engine offers could only be guessed.
Task<Routes> FetchRoutes(Control& control, Budget budget);

// Abilities::salt_field for a generation route: where the document does not say it is cache_salt,
// the one name that both vLLM and SGLang have.
std::string SaltField(const Routes& routes, std::string_view route);

}  // namespace isthmus::engine

#endif  // ISTHMUS_ENGINE_ROUTES_H_
