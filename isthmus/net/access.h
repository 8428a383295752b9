// Who may talk to a listener, as files say it, which may change while it serves.
#ifndef ISTHMUS_NET_ACCESS_H_
#define ISTHMUS_NET_ACCESS_H_

#include <memory>
#include <optional>

#include "isthmus/base/file.h"
#include "isthmus/net/auth.h"
#include "isthmus/net/tls.h"

namespace isthmus::net {

struct AccessOptions {
  std::shared_ptr<ServerTls> tls;  // of the listener; none: plain HTTP
  // Files of bearer tokens: of clients, and of operators. Without the second the first counts for
  // both; without both everybody is let in.
  std::optional<fs::path> client_tokens;
  std::optional<fs::path> operator_tokens;

  bool asks_for_tokens() const { return client_tokens || operator_tokens; }
};

enum class Caller { kClient, kOperator };

// Used on one thread.
class Access {
 public:
  // Reads the tokens; errors as BearerTokens::FromFile.
  explicit Access(AccessOptions options);

  // Reads certificates, then tokens again. Throws if that cannot be done: what was not read by then
  // stays as it was.
  void Reload();
  bool Admits(const Headers& request, Caller caller) const;

 private:
  void ReadTokens();

  AccessOptions options_;
  std::optional<BearerTokens> clients_;
  std::optional<BearerTokens> operators_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_ACCESS_H_
