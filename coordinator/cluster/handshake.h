// coordinator/cluster/handshake.h
//
// What coordinator and node must agree on before any work. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "proto/expert.pb.h"

namespace deltafin {

// What this side says of itself.
struct HandshakeIdentity {
  std::string manifest_digest;  // SHA-256 hex
  std::string coordinator;      // for the nodes' logs
};

v1::HandshakeRequest MakeHandshake(const HandshakeIdentity& identity);

// Words that go into logs and tables: INVALID_ARGUMENT for one that is not
// `least` to `most` printable ASCII characters without blanks.
absl::Status CheckWord(std::string_view field, std::string_view word,
                       size_t least, size_t most);
// The same of every word that a node says of itself; any may be empty.
absl::Status CheckIdentityWords(const v1::HandshakeReply& identity);

// FAILED_PRECONDITION with both values where wire version, numerics version or
// model differ; INVALID_ARGUMENT for words that are none.
absl::Status CheckNodeIdentity(const v1::HandshakeRequest& ours,
                               const v1::HandshakeReply& theirs);

}  // namespace deltafin
