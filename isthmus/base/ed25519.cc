#include "isthmus/base/ed25519.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <cerrno>

#include "isthmus/base/error.h"

namespace isthmus {
namespace {

constexpr uint64_t kMaxKeyFileBytes = 1 << 20;

using KeyPtr = std::shared_ptr<EVP_PKEY>;
using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
using ContextPtr = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

[[noreturn]] void Refused(std::string_view action) {
  Throw(ErrorCode::kInternal, "{}: OpenSSL refused", action);
}

KeyPtr Own(EVP_PKEY* key) { return {key, EVP_PKEY_free}; }

const unsigned char* Bytes(ByteSpan span) {
  return reinterpret_cast<const unsigned char*>(span.data());
}

PublicKey PublicKeyOf(const KeyPtr& key) {
  PublicKey raw;
  size_t size = raw.bytes.size();
  auto* const out = reinterpret_cast<unsigned char*>(raw.bytes.data());
  if (EVP_PKEY_get_raw_public_key(key.get(), out, &size) != 1 || size != raw.bytes.size()) {
    Refused("read an Ed25519 key");
  }
  return raw;
}

BioPtr ReaderOf(const std::string& text) {
  BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  if (!bio) Refused("read a key file");
  return bio;
}

// A key file that is encrypted must not make the program ask at a terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

std::string PrivatePem(const KeyPtr& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()), BIO_free);
  if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                            nullptr) != 1) {
    Refused("write a private key");
  }
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string PublicPem(const KeyPtr& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()), BIO_free);
  if (!bio || PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) Refused("write a public key");
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<size_t>(size)};
}

// With its mode from the beginning: no instant at which others could open a private key.
void WriteNew(const fs::path& file, const std::string& text, mode_t mode) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor < 0 && errno == EEXIST) {
    Throw(ErrorCode::kConflict, "write key {}: it exists, and keys are not replaced",
          file.string());
  }
  if (descriptor < 0) ThrowErrno(errno, "create", file.string());
  const ssize_t written = ::write(descriptor, text.data(), text.size());
  const int error = written < 0 ? errno : ENOSPC;
  const bool whole = written == static_cast<ssize_t>(text.size()) && ::fsync(descriptor) == 0;
  ::close(descriptor);
  if (whole) return;
  ::unlink(file.c_str());
  ThrowErrno(error, "write", file.string());
}

bool IsEd25519(const KeyPtr& key) { return key && EVP_PKEY_id(key.get()) == EVP_PKEY_ED25519; }

}  // namespace

bool VerifySignature(const PublicKey& key, ByteSpan message, const Signature& signature) {
  const KeyPtr pkey = Own(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Bytes(key.span()), key.bytes.size()));
  const ContextPtr context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!pkey || !context ||
      EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, pkey.get()) != 1) {
    return false;  // not a point of the curve
  }
  return EVP_DigestVerify(context.get(), Bytes(signature.span()), signature.bytes.size(),
                          Bytes(message), message.size()) == 1;
}

SigningKey::SigningKey(KeyPtr key) : key_(std::move(key)), public_key_(PublicKeyOf(key_)) {}

SigningKey SigningKey::Generate() {
  KeyPtr key = Own(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  if (!key) Refused("make an Ed25519 key");
  return SigningKey(std::move(key));
}

SigningKey SigningKey::Load(const fs::path& file) {
  const std::string text = ReadFile(file, kMaxKeyFileBytes);
  KeyPtr key = Own(PEM_read_bio_PrivateKey(ReaderOf(text).get(), nullptr, NoPassword, nullptr));
  if (!IsEd25519(key)) {
    Throw(ErrorCode::kInvalid,
          "read key {}: expected an Ed25519 private key in PEM, without a password", file.string());
  }
  return SigningKey(std::move(key));
}

void SigningKey::Save(const fs::path& file) const {
  constexpr mode_t kOwnerOnly = 0600;
  constexpr mode_t kEverybodyReads = 0644;
  const fs::path public_file = file.string() + ".pub";
  if (Exists(public_file)) {
    Throw(ErrorCode::kConflict, "write key {}: it exists, and keys are not replaced",
          public_file.string());
  }
  WriteNew(file, PrivatePem(key_), kOwnerOnly);
  WriteNew(public_file, PublicPem(key_), kEverybodyReads);
}

Signature SigningKey::Sign(ByteSpan message) const {
  Signature signature;
  size_t size = signature.bytes.size();
  const ContextPtr context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  auto* const out = reinterpret_cast<unsigned char*>(signature.bytes.data());
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) != 1 ||
      EVP_DigestSign(context.get(), out, &size, Bytes(message), message.size()) != 1) {
    Refused("sign");
  }
  return signature;
}

std::vector<PublicKey> LoadPublicKeys(const fs::path& file) {
  const std::string text = ReadFile(file, kMaxKeyFileBytes);
  const BioPtr bio = ReaderOf(text);
  std::vector<PublicKey> keys;
  while (const KeyPtr key = Own(PEM_read_bio_PUBKEY(bio.get(), nullptr, NoPassword, nullptr))) {
    if (!IsEd25519(key)) {
      Throw(ErrorCode::kInvalid, "read public keys in {}: number {} is not an Ed25519 key",
            file.string(), keys.size() + 1);
    }
    keys.push_back(PublicKeyOf(key));
  }
  if (keys.empty()) {
    Throw(ErrorCode::kInvalid, "read public keys in {}: none, expected PEM (BEGIN PUBLIC KEY)",
          file.string());
  }
  return keys;
}

}  // namespace isthmus
