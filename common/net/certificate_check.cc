#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/net/certificate.h"
#include "common/net/member_rights.h"
#include "common/net/openssl_objects.h"

namespace deltafin {
namespace {

using openssl::Certificate;
using openssl::Free;
using openssl::Key;
using openssl::ParseCertificate;
using openssl::ParseCertificates;
using openssl::ParseKey;
using openssl::PublicKeySha256;

std::string CommonName(const X509_NAME* name) {
  std::array<char, 256> text{};
  X509_NAME_get_text_by_NID(name, NID_commonName, text.data(), text.size());
  return text.data();
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts;
  if (ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InvalidArgumentError("a certificate whose dates are none");
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::vector<std::string> DnsNames(X509* certificate) {
  std::vector<std::string> names;
  auto* all = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_DNS) continue;
    const ASN1_STRING* text = name->d.dNSName;
    names.emplace_back(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
        static_cast<size_t>(ASN1_STRING_length(text)));
  }
  GENERAL_NAMES_free(all);
  return names;
}

absl::StatusOr<CertificateFacts> FactsOf(X509* certificate) {
  CertificateFacts facts;
  facts.subject = CommonName(X509_get_subject_name(certificate));
  facts.issuer = CommonName(X509_get_issuer_name(certificate));
  facts.names = DnsNames(certificate);
  ASSIGN_OR_RETURN(facts.validity.not_before,
                   TimeOf(X509_get0_notBefore(certificate)));
  ASSIGN_OR_RETURN(facts.validity.not_after,
                   TimeOf(X509_get0_notAfter(certificate)));
  facts.is_authority = X509_check_ca(certificate) != 0;
  EVP_PKEY* key = X509_get0_pubkey(certificate);
  if (key == nullptr) {
    return absl::InvalidArgumentError("a certificate of an unknown key");
  }
  facts.key_sha256 = PublicKeySha256(key);
  return facts;
}

std::string DateOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// X509_V_OK, or why the chain from `certificate` to an authority does not hold.
int ChainError(X509* certificate, const std::vector<Certificate>& authorities,
               absl::Time now) {
  const std::unique_ptr<X509_STORE, Free<X509_STORE_free>> store(
      X509_STORE_new());
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  const std::unique_ptr<X509_STORE_CTX, Free<X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  CHECK(X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) ==
        1);
  X509_STORE_CTX_set_time(context.get(), 0, absl::ToTimeT(now));
  X509_verify_cert(context.get());
  ERR_clear_error();
  return X509_STORE_CTX_get_error(context.get());
}

absl::Status ChainStatus(int error, const Validity& validity, absl::Time now) {
  switch (error) {
    case X509_V_OK:
      return absl::OkStatus();
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::InvalidArgumentError(fmt::format(
          "the certificate, or its authority, has expired: it was valid until "
          "{} and this machine's clock says {}; make a new one with `deltafin "
          "certs issue`",
          DateOf(validity.not_after), DateOf(now)));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::InvalidArgumentError(fmt::format(
          "the certificate, or its authority, is not valid yet: it is from {} "
          "and this machine's clock says {}; set the clock",
          DateOf(validity.not_before), DateOf(now)));
    default:
      return absl::InvalidArgumentError(fmt::format(
          "the certificate is not of this authority ({}); use the ca.crt that "
          "was made with it",
          X509_verify_cert_error_string(error)));
  }
}

}  // namespace

absl::StatusOr<CertificateFacts> ReadCertificate(std::string_view pem) {
  ASSIGN_OR_RETURN(const Certificate certificate, ParseCertificate(pem));
  return FactsOf(certificate.get());
}

MemberRights RightsOf(const CertificateFacts& facts) {
  const bool is_administrator =
      std::ranges::find(facts.names, kAdministratorName) != facts.names.end();
  return is_administrator ? MemberRights::kAdministrator : MemberRights::kNode;
}

absl::Status CheckCertificate(const CertificateAndKey& own,
                              std::string_view authorities, absl::Time now) {
  ASSIGN_OR_RETURN(const Certificate certificate,
                   ParseCertificate(own.certificate));
  ASSIGN_OR_RETURN(const Key key, ParseKey(own.key));
  ASSIGN_OR_RETURN(const CertificateFacts facts, FactsOf(certificate.get()));
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        "certificate and key do not belong together; name the two files that "
        "`deltafin certs issue` made at once");
  }
  const std::vector<Certificate> roots = ParseCertificates(authorities);
  if (roots.empty()) {
    return absl::InvalidArgumentError("no authority's certificate in PEM");
  }
  RETURN_IF_ERROR(ChainStatus(ChainError(certificate.get(), roots, now),
                              facts.validity, now));
  if (std::ranges::find(facts.names, kClusterPeerName) == facts.names.end()) {
    return absl::InvalidArgumentError(fmt::format(
        "the certificate has no subject alternative name {}, by which peers "
        "know each other; `deltafin certs issue` puts it in",
        kClusterPeerName));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
