// common/net/openssl_objects.h
//
// OpenSSL's objects with owners, and its errors as texts. Only for the files
// that are OpenSSL's door.
#pragma once

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin::openssl {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_clear_free>>;

// INTERNAL with what OpenSSL says of its last error, whose list is cleared.
absl::Status Failed(std::string_view what);

// A reader of `text`, which must outlive it.
Bio Reading(std::string_view text);
// All that was written to a memory BIO.
std::string Contents(BIO* bio);

// The key that a secret stands for: HKDF-SHA256, reduced to a private key of
// P-256.
absl::StatusOr<Key> KeyOfSecret(std::span<const uint8_t> secret);
absl::StatusOr<Key> RandomKey();
// Of the public half, hexadecimal.
std::string PublicKeySha256(EVP_PKEY* key);

// PEM. Errors: INVALID_ARGUMENT.
absl::StatusOr<Key> ParseKey(std::string_view pem);
absl::StatusOr<Certificate> ParseCertificate(
    std::string_view pem);  // the first
std::vector<Certificate> ParseCertificates(std::string_view pem);

}  // namespace deltafin::openssl
