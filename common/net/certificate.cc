#include "common/net/certificate.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "common/base/status_macros.h"
#include "common/net/member_rights.h"
#include "common/net/openssl_objects.h"

namespace deltafin {
namespace {

using openssl::Bio;
using openssl::Certificate;
using openssl::Contents;
using openssl::Failed;
using openssl::Free;
using openssl::Key;
using openssl::Number;
using openssl::PublicKeySha256;

constexpr size_t kMaxNameLength = 63;

absl::StatusOr<CertificateAndKey> ToPem(X509* certificate, EVP_PKEY* key) {
  const Bio certificate_bio(BIO_new(BIO_s_mem()));
  const Bio key_bio(BIO_new(BIO_s_secmem()));
  if (PEM_write_bio_X509(certificate_bio.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_bio.get(), key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return Failed("write PEM");
  }
  return CertificateAndKey{Contents(certificate_bio.get()),
                           Contents(key_bio.get())};
}

struct Extension {
  int nid;
  std::string value;
};

struct Contract {
  std::string subject;
  Validity validity;
  std::vector<Extension> extensions;
};

absl::Status AddExtension(X509* certificate, X509* issuer,
                          const Extension& extension) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>> made(
      X509V3_EXT_conf_nid(nullptr, &context, extension.nid,
                          extension.value.c_str()));
  if (made == nullptr || X509_add_ext(certificate, made.get(), -1) != 1) {
    return Failed("add a certificate's extension");
  }
  return absl::OkStatus();
}

bool SetName(X509_NAME* name, const std::string& common_name) {
  return X509_NAME_add_entry_by_txt(
             name, "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(common_name.data()),
             static_cast<int>(common_name.size()), -1, 0) == 1;
}

bool SetSerial(X509* certificate) {
  const Number serial(BN_new());
  return BN_rand(serial.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetValidity(X509* certificate, const Validity& validity) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       absl::ToTimeT(validity.not_before)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       absl::ToTimeT(validity.not_after)) != nullptr;
}

// Signed by the issuer, or by itself where that is null.
absl::StatusOr<Certificate> Sign(const Contract& contract, EVP_PKEY* key,
                                 X509* issuer, EVP_PKEY* issuer_key) {
  Certificate made(X509_new());
  X509* const certificate = made.get();
  if (issuer == nullptr) issuer = certificate;
  if (X509_set_version(certificate, X509_VERSION_3) != 1 ||
      !SetSerial(certificate) || !SetValidity(certificate, contract.validity) ||
      !SetName(X509_get_subject_name(certificate), contract.subject) ||
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      X509_set_pubkey(certificate, key) != 1) {
    return Failed("make a certificate");
  }
  for (const Extension& extension : contract.extensions) {
    RETURN_IF_ERROR(AddExtension(certificate, issuer, extension));
  }
  if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
    return Failed("sign a certificate");
  }
  return made;
}

absl::StatusOr<CertificateAndKey> AuthorityWithKey(const Key& key,
                                                   const Validity& validity) {
  Contract contract;
  // Authorities of different keys have different names, so that a list of them
  // is searched by name.
  contract.subject =
      "deltafin authority " + PublicKeySha256(key.get()).substr(0, 16);
  contract.validity = validity;
  contract.extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                         {NID_key_usage, "critical,keyCertSign,cRLSign"},
                         {NID_subject_key_identifier, "hash"}};
  ASSIGN_OR_RETURN(const Certificate certificate,
                   Sign(contract, key.get(), nullptr, key.get()));
  return ToPem(certificate.get(), key.get());
}

// Names of this domain are the cluster's own: who is called so has rights.
bool StandsForRights(std::string_view name) {
  return absl::EndsWithIgnoreCase({name.data(), name.size()}, kClusterPeerName);
}

bool IsName(std::string_view name) {
  const bool good = std::ranges::all_of(name, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  });
  return good && !name.empty() && name.size() <= kMaxNameLength &&
         name.front() != '.' && name.front() != '-';
}

}  // namespace

Validity UnlimitedValidity() {
  return {absl::FromCivil(absl::CivilDay(2000, 1, 1), absl::UTCTimeZone()),
          absl::FromCivil(absl::CivilSecond(9999, 12, 31, 23, 59, 59),
                          absl::UTCTimeZone())};
}

absl::StatusOr<CertificateAndKey> AuthorityOfSecret(
    std::span<const uint8_t> secret) {
  ASSIGN_OR_RETURN(const Key key, openssl::KeyOfSecret(secret));
  return AuthorityWithKey(key, UnlimitedValidity());
}

absl::StatusOr<CertificateAndKey> MakeAuthority(const Validity& validity) {
  ASSIGN_OR_RETURN(const Key key, openssl::RandomKey());
  return AuthorityWithKey(key, validity);
}

absl::StatusOr<CertificateAndKey> IssueCertificate(
    const CertificateAndKey& authority, const std::string& name,
    const Validity& validity) {
  return IssueCertificateWith(MemberRights::kNode, authority, name, validity);
}

absl::StatusOr<CertificateAndKey> IssueCertificateWith(
    MemberRights rights, const CertificateAndKey& authority,
    const std::string& name, const Validity& validity) {
  if (StandsForRights(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no name for a certificate: names in {} are the cluster's own",
        name, kClusterPeerName));
  }
  if (!IsName(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' is no name for a certificate: letters, digits, '.' and '-', at "
        "most {}",
        name, kMaxNameLength));
  }
  ASSIGN_OR_RETURN(const Certificate issuer,
                   openssl::ParseCertificate(authority.certificate));
  ASSIGN_OR_RETURN(const Key issuer_key, openssl::ParseKey(authority.key));
  ASSIGN_OR_RETURN(const Key key, openssl::RandomKey());
  Contract contract;
  contract.subject = name;
  contract.validity = validity;
  std::string names = fmt::format("DNS:{},DNS:{}", kClusterPeerName, name);
  if (rights == MemberRights::kAdministrator) {
    names += fmt::format(",DNS:{}", kAdministratorName);
  }
  contract.extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                         {NID_key_usage, "critical,digitalSignature"},
                         {NID_ext_key_usage, "serverAuth,clientAuth"},
                         {NID_subject_key_identifier, "hash"},
                         {NID_authority_key_identifier, "keyid:always"},
                         {NID_subject_alt_name, names}};
  ASSIGN_OR_RETURN(const Certificate certificate,
                   Sign(contract, key.get(), issuer.get(), issuer_key.get()));
  return ToPem(certificate.get(), key.get());
}

}  // namespace deltafin
