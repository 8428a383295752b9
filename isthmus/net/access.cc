#include "isthmus/net/access.h"

#include <utility>

namespace isthmus::net {

Access::Access(AccessOptions options) : options_(std::move(options)) { ReadTokens(); }

void Access::Reload() {
  if (options_.tls) options_.tls->Reload();
  ReadTokens();
}

// All or none.
void Access::ReadTokens() {
  std::optional<BearerTokens> clients;
  std::optional<BearerTokens> operators;
  if (options_.client_tokens) clients = BearerTokens::FromFile(*options_.client_tokens);
  if (options_.operator_tokens) operators = BearerTokens::FromFile(*options_.operator_tokens);
  clients_ = std::move(clients);
  operators_ = std::move(operators);
}

bool Access::Admits(const Headers& request, Caller caller) const {
  const auto& tokens = caller == Caller::kOperator && operators_ ? operators_ : clients_;
  return !tokens || tokens->Admits(request);
}

}  // namespace isthmus::net
