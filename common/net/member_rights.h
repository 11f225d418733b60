// common/net/member_rights.h
//
// What a member of a cluster may do, as its certificate (certificate.h) tells.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/certificate.h"

namespace deltafin {

enum class MemberRights : uint8_t {
  kNode,           // join, serve, copy, generate, look
  kAdministrator,  // all of it, and change the cluster
};

// A further name, in certificates of administrators.
inline constexpr char kAdministratorName[] = "administrator.deltafin.cluster";

// As IssueCertificate, which gives the rights of a node, with others. Neither
// takes a name in deltafin.cluster: those stand for rights (INVALID_ARGUMENT).
absl::StatusOr<CertificateAndKey> IssueCertificateWith(
    MemberRights rights, const CertificateAndKey& authority,
    const std::string& name, const Validity& validity);

// Certificates that tell nothing of rights have those of a node.
MemberRights RightsOf(const CertificateFacts& facts);

}  // namespace deltafin
