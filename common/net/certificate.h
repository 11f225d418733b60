// common/net/certificate.h
//
// X.509 certificates of a cluster: an authority, and certificates that it
// signs for the cluster's machines. Keys are on the curve P-256. Pure but for
// random numbers; thread-safe. Errors never quote a key.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace deltafin {

// The name in every certificate of a cluster. Peers check it in place of a host
// name: addresses of machines change, and the authority signs nothing else.
inline constexpr char kClusterPeerName[] = "deltafin.cluster";

struct Validity {
  absl::Time not_before;
  absl::Time not_after;
};

// From 2000 to 9999: for certificates whose end is the end of a process.
Validity UnlimitedValidity();

// Both PEM.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

// The authority that a secret stands for: its key is derived from the secret by
// HKDF-SHA256, so that all who know the secret make the same one. Its public
// key tells nothing that helps to guess the secret, as long as that was random.
absl::StatusOr<CertificateAndKey> AuthorityOfSecret(
    std::span<const uint8_t> secret);

// An authority with a random key.
absl::StatusOr<CertificateAndKey> MakeAuthority(const Validity& validity);

// A certificate with a random key for a machine that both serves and calls.
// Errors: INVALID_ARGUMENT for a name with other characters than letters,
// digits, '.' and '-', or longer than 63.
absl::StatusOr<CertificateAndKey> IssueCertificate(
    const CertificateAndKey& authority, const std::string& name,
    const Validity& validity);

struct CertificateFacts {
  std::string subject;             // common name
  std::string issuer;              // common name
  std::vector<std::string> names;  // DNS names it may be called
  Validity validity;
  std::string key_sha256;  // of the public key, hexadecimal
  bool is_authority = false;
};

// The first certificate of a PEM text. Errors: INVALID_ARGUMENT.
absl::StatusOr<CertificateFacts> ReadCertificate(std::string_view pem);

// OK when `own` is good for a peer that trusts `authorities` (PEM, one or
// more): key and certificate belong together, an authority signed it, it holds
// the cluster's peer name and is valid at `now`. Errors: INVALID_ARGUMENT with
// what is wrong and what to do.
absl::Status CheckCertificate(const CertificateAndKey& own,
                              std::string_view authorities, absl::Time now);

}  // namespace deltafin
