// Ed25519 signatures (RFC 8032), by OpenSSL, with keys in files.
#ifndef ISTHMUS_BASE_ED25519_H_
#define ISTHMUS_BASE_ED25519_H_

#include <memory>
#include <string>
#include <vector>

#include "isthmus/base/digest.h"
#include "isthmus/base/file.h"

struct evp_pkey_st;

namespace isthmus {

using PublicKey = DigestBytes<32>;
using Signature = DigestBytes<64>;

// Whether `signature` over `message` was made with the private key of `key`. Thread-safe.
bool VerifySignature(const PublicKey& key, ByteSpan message, const Signature& signature);

// A private key. Signing is deterministic: the same message has the same signature. Thread-safe.
class SigningKey {
 public:
  static SigningKey Generate();
  // A PEM file as `openssl genpkey -algorithm ed25519` writes it. kNotFound, kInvalid if it is not
  // such a key or is encrypted.
  static SigningKey Load(const fs::path& file);

  // Writes `file`, which only its owner may read, and the public key beside it as `file`.pub.
  // kConflict if one of them exists.
  void Save(const fs::path& file) const;

  const PublicKey& public_key() const { return public_key_; }
  Signature Sign(ByteSpan message) const;

 private:
  explicit SigningKey(std::shared_ptr<evp_pkey_st> key);

  std::shared_ptr<evp_pkey_st> key_;
  PublicKey public_key_;
};

// The public keys in a PEM file, as `openssl pkey -pubout` writes them, one after another.
// kNotFound, kInvalid if it holds none, or one that is not Ed25519.
std::vector<PublicKey> LoadPublicKeys(const fs::path& file);

}  // namespace isthmus

#endif  // ISTHMUS_BASE_ED25519_H_
