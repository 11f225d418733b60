#include "common/net/openssl_objects.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>

#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace deltafin::openssl {
namespace {

constexpr char kCurve[] = "P-256";
// 128 bits more than the curve's order: no bias after the reduction.
constexpr size_t kSeedBytes = 48;
constexpr std::string_view kSalt = "deltafin cluster token 1";
constexpr std::string_view kPurpose = "P-256 key of the authority";

// What OpenSSL says of the last error; clears its list.
std::string LastError() {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return text.data();
}

absl::StatusOr<std::array<uint8_t, kSeedBytes>> SeedOf(
    std::span<const uint8_t> secret) {
  const std::unique_ptr<EVP_KDF, Free<EVP_KDF_free>> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr));
  const std::unique_ptr<EVP_KDF_CTX, Free<EVP_KDF_CTX_free>> context(
      EVP_KDF_CTX_new(kdf.get()));
  const auto bytes = [](const char* name, const void* data, size_t size) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data),
                                             size);
  };
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      bytes(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
      bytes(OSSL_KDF_PARAM_SALT, kSalt.data(), kSalt.size()),
      bytes(OSSL_KDF_PARAM_INFO, kPurpose.data(), kPurpose.size()),
      OSSL_PARAM_construct_end()};
  std::array<uint8_t, kSeedBytes> seed;
  if (context == nullptr || EVP_KDF_derive(context.get(), seed.data(),
                                           seed.size(), parameters) != 1) {
    return Failed("HKDF-SHA256");
  }
  return seed;
}

// seed mod (n - 1) + 1, a private key of the curve whose order is n.
Number ScalarOf(std::span<const uint8_t> seed, const EC_GROUP* group) {
  const std::unique_ptr<BN_CTX, Free<BN_CTX_free>> context(BN_CTX_new());
  Number scalar(BN_bin2bn(seed.data(), static_cast<int>(seed.size()), nullptr));
  const Number bound(BN_dup(EC_GROUP_get0_order(group)));
  CHECK(BN_sub_word(bound.get(), 1) == 1);
  CHECK(BN_mod(scalar.get(), scalar.get(), bound.get(), context.get()) == 1);
  CHECK(BN_add_word(scalar.get(), 1) == 1);
  return scalar;
}

// The public key of a private one, as the octets of a point.
std::vector<uint8_t> PublicOctets(const EC_GROUP* group, const BIGNUM* scalar) {
  const std::unique_ptr<EC_POINT, Free<EC_POINT_free>> point(
      EC_POINT_new(group));
  CHECK(EC_POINT_mul(group, point.get(), scalar, nullptr, nullptr, nullptr) ==
        1);
  std::vector<uint8_t> octets(65);
  CHECK(EC_POINT_point2oct(group, point.get(), POINT_CONVERSION_UNCOMPRESSED,
                           octets.data(), octets.size(),
                           nullptr) == octets.size());
  return octets;
}

// A passphrase is never asked for: programs that serve have no terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

}  // namespace

absl::Status Failed(std::string_view what) {
  return absl::InternalError(fmt::format("{}: {}", what, LastError()));
}

Bio Reading(std::string_view pem) {
  Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  CHECK(bio != nullptr);
  return bio;
}

std::string Contents(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<Key> KeyOfSecret(std::span<const uint8_t> secret) {
  ASSIGN_OR_RETURN(const auto seed, SeedOf(secret));
  const std::unique_ptr<EC_GROUP, Free<EC_GROUP_free>> group(
      EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1));
  const Number scalar = ScalarOf(seed, group.get());
  const std::vector<uint8_t> octets = PublicOctets(group.get(), scalar.get());
  const std::unique_ptr<OSSL_PARAM_BLD, Free<OSSL_PARAM_BLD_free>> builder(
      OSSL_PARAM_BLD_new());
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME,
                                  kCurve, 0);
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_PRIV_KEY, scalar.get());
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY,
                                   octets.data(), octets.size());
  const std::unique_ptr<OSSL_PARAM, Free<OSSL_PARAM_free>> parameters(
      OSSL_PARAM_BLD_to_param(builder.get()));
  const std::unique_ptr<EVP_PKEY_CTX, Free<EVP_PKEY_CTX_free>> context(
      EVP_PKEY_CTX_new_from_name(nullptr, "EC", nullptr));
  EVP_PKEY* key = nullptr;
  if (EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR,
                        parameters.get()) != 1) {
    return Failed("make a key");
  }
  return Key(key);
}

absl::StatusOr<Key> RandomKey() {
  Key key(EVP_EC_gen(kCurve));
  if (key == nullptr) return Failed("make a key");
  return key;
}

std::string PublicKeySha256(EVP_PKEY* key) {
  const Bio der(BIO_new(BIO_s_mem()));
  CHECK(i2d_PUBKEY_bio(der.get(), key) == 1);
  const std::string bytes = Contents(der.get());
  return Sha256Hex(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

absl::StatusOr<Key> ParseKey(std::string_view pem) {
  Key key(PEM_read_bio_PrivateKey(Reading(pem).get(), nullptr, NoPassphrase,
                                  nullptr));
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(fmt::format(
      "no private key in PEM without a passphrase ({})", LastError()));
}

std::vector<Certificate> ParseCertificates(std::string_view pem) {
  const Bio bio = Reading(pem);
  std::vector<Certificate> all;
  while (X509* next =
             PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)) {
    all.emplace_back(next);
  }
  ERR_clear_error();  // the end of the text is an error to OpenSSL
  return all;
}

absl::StatusOr<Certificate> ParseCertificate(std::string_view pem) {
  std::vector<Certificate> all = ParseCertificates(pem);
  if (!all.empty()) return std::move(all.front());
  return absl::InvalidArgumentError("no certificate in PEM");
}

}  // namespace deltafin::openssl
