// Certificates for tests, made on the spot.
#ifndef ISTHMUS_TESTS_SUPPORT_CERTIFICATES_H_
#define ISTHMUS_TESTS_SUPPORT_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>

#include "isthmus/base/file.h"

namespace isthmus::testing {

// A key and a certificate for it, signed by `issuer`, or by itself: then it is a root.
class Certificate {
 public:
  // `names`: a subjectAltName as OpenSSL writes it, for example "DNS:localhost,IP:127.0.0.1".
  explicit Certificate(const std::string& names, const Certificate* issuer = nullptr)
      : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), x509_(X509_new(), X509_free) {
    static long serial = 0;
    X509_set_version(x509_.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509_.get()), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(x509_.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x509_.get()), 3600);
    X509_set_pubkey(x509_.get(), key_.get());
    X509_NAME* subject = X509_get_subject_name(x509_.get());
    const std::string name = "test " + std::to_string(serial);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const Certificate& signer = issuer != nullptr ? *issuer : *this;
    X509_set_issuer_name(x509_.get(), X509_get_subject_name(signer.x509_.get()));
    if (issuer == nullptr) Extend(NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) Extend(NID_subject_alt_name, names);
    X509_sign(x509_.get(), signer.key_.get(), EVP_sha256());
  }

  void WriteCertificate(const fs::path& path) const {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "w"), fclose);
    PEM_write_X509(file.get(), x509_.get());
  }
  void WriteKey(const fs::path& path) const {
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(path.c_str(), "w"), fclose);
    PEM_write_PrivateKey(file.get(), key_.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

 private:
  void Extend(int id, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str());
    X509_add_ext(x509_.get(), extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key_;
  std::unique_ptr<X509, void (*)(X509*)> x509_;
};

}  // namespace isthmus::testing

#endif  // ISTHMUS_TESTS_SUPPORT_CERTIFICATES_H_
