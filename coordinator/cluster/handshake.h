// coordinator/cluster/handshake.h
//
// What coordinator and node must agree on before any work. Pure.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "proto/expert.pb.h"

namespace deltafin {

// What this side says of itself.
struct HandshakeIdentity {
  std::string manifest_digest;  // SHA-256 hex
  std::string coordinator;      // for the nodes' logs
};

v1::HandshakeRequest MakeHandshake(const HandshakeIdentity& identity);

// FAILED_PRECONDITION with both values where wire version, numerics version or
// model differ; INVALID_ARGUMENT for words that CheckIdentityWords refuses.
absl::Status CheckNodeIdentity(const v1::HandshakeRequest& ours,
                               const v1::HandshakeReply& theirs);

}  // namespace deltafin
