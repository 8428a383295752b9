#include "isthmus/net/tls.h"

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

#include "isthmus/base/error.h"

namespace isthmus::net {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

void Check(const error_code& error, const char* what, const fs::path& file) {
  if (error) Throw(ErrorCode::kInvalid, "TLS {} {}: {}", what, file.string(), error.message());
}

std::shared_ptr<TlsContext> MakeContext(TlsContext::method method) {
  auto context = std::make_shared<TlsContext>(method);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Idle connections give their buffers back: thousands of them stay cheap.
  SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION);
  return context;
}

void Load(const TlsIdentity& identity, TlsContext* context) {
  error_code error;
  context->use_certificate_chain_file(identity.certificates.string(), error);
  Check(error, "certificates", identity.certificates);
  context->use_private_key_file(identity.private_key.string(), TlsContext::pem, error);
  Check(error, "private key", identity.private_key);
}

void Trust(const fs::path& ca, TlsContext* context) {
  error_code error;
  context->load_verify_file(ca.string(), error);
  Check(error, "roots", ca);
}

std::shared_ptr<TlsContext> ServerContext(const TlsIdentity& identity,
                                          const std::optional<fs::path>& client_ca) {
  auto context = MakeContext(TlsContext::tls_server);
  Load(identity, context.get());
  // Sessions of clients with certificates would need an id context; tickets suffice for the others.
  SSL_CTX_set_session_cache_mode(context->native_handle(), SSL_SESS_CACHE_OFF);
  if (client_ca) {
    SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(context->native_handle(), 0);
    Trust(*client_ca, context.get());
    context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  return context;
}

std::shared_ptr<TlsContext> ClientContext(const std::optional<fs::path>& ca,
                                          const std::optional<TlsIdentity>& identity) {
  auto context = MakeContext(TlsContext::tls_client);
  if (ca) {
    Trust(*ca, context.get());
  } else {
    context->set_default_verify_paths();
  }
  if (identity) Load(*identity, context.get());
  context->set_verify_mode(ssl::verify_peer);
  return context;
}

}  // namespace

ServerTls::ServerTls(TlsIdentity identity, std::optional<fs::path> client_ca)
    : identity_(std::move(identity)),
      client_ca_(std::move(client_ca)),
      current_(ServerContext(identity_, client_ca_)) {}

void ServerTls::Reload() { current_ = ServerContext(identity_, client_ca_); }

ClientTls::ClientTls(std::optional<fs::path> ca, std::optional<TlsIdentity> identity)
    : ca_(std::move(ca)), identity_(std::move(identity)), current_(ClientContext(ca_, identity_)) {}

void ClientTls::Reload() { current_ = ClientContext(ca_, identity_); }

}  // namespace isthmus::net
