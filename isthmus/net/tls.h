// TLS for listeners and clients: contexts made of PEM files. At least TLS 1.2.
#ifndef ISTHMUS_NET_TLS_H_
#define ISTHMUS_NET_TLS_H_

#include <memory>
#include <optional>

#include "isthmus/base/file.h"

namespace boost::asio::ssl {
class context;
}

namespace isthmus::net {

using TlsContext = boost::asio::ssl::context;

struct TlsIdentity {
  fs::path certificates;  // PEM: the certificate, then what leads to a root
  fs::path private_key;   // PEM, without a pass phrase; must fit the certificate
};

// A listener's side. New connections take the current context; those that exist keep theirs.
class ServerTls {
 public:
  // `client_ca`: PEM roots; if given, clients without a certificate of theirs are refused (mutual
  // TLS). Throws kInvalid, naming the file, for anything that cannot be read or does not fit.
  ServerTls(TlsIdentity identity, std::optional<fs::path> client_ca);

  // Reads the files again (on SIGHUP). If that fails it throws, and the old context stays.
  void Reload();
  // For the loop's thread, as Reload is.
  std::shared_ptr<TlsContext> current() const { return current_; }

 private:
  TlsIdentity identity_;
  std::optional<fs::path> client_ca_;
  std::shared_ptr<TlsContext> current_;
};

// A client's side. The server's certificate must lead to a root in `ca` (the system's roots if none
// is given) and be for the host that is connected to. `identity` is shown to servers that ask for
// one.
class ClientTls {
 public:
  ClientTls(std::optional<fs::path> ca, std::optional<TlsIdentity> identity);

  void Reload();
  std::shared_ptr<TlsContext> current() const { return current_; }

 private:
  std::optional<fs::path> ca_;
  std::optional<TlsIdentity> identity_;
  std::shared_ptr<TlsContext> current_;
};

}  // namespace isthmus::net

#endif  // ISTHMUS_NET_TLS_H_
