#include "coordinator/cluster/handshake.h"

#include <string_view>

#include "common/base/status_macros.h"
#include "coordinator/cluster/word_check.h"
#include "proto/protocol_version.h"

namespace deltafin {
namespace {

absl::Status CheckSame(std::string_view what, std::string_view ours,
                       std::string_view theirs) {
  if (ours == theirs) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} differs: the coordinator has {}, the node has {}; start both from "
      "the same model and release",
      what, ours, theirs));
}

}  // namespace

v1::HandshakeRequest MakeHandshake(const HandshakeIdentity& identity) {
  v1::HandshakeRequest request;
  request.set_manifest_digest(identity.manifest_digest);
  request.set_wire_version(kWireVersion);
  request.set_numerics_version(kNumericsVersion);
  request.set_coordinator(identity.coordinator);
  return request;
}

absl::Status CheckNodeIdentity(const v1::HandshakeRequest& ours,
                               const v1::HandshakeReply& theirs) {
  RETURN_IF_ERROR(CheckIdentityWords(theirs));
  RETURN_IF_ERROR(CheckSame("wire version", std::to_string(ours.wire_version()),
                            std::to_string(theirs.wire_version())));
  RETURN_IF_ERROR(CheckSame("numerics version",
                            std::to_string(ours.numerics_version()),
                            std::to_string(theirs.numerics_version())));
  return CheckSame("model (manifest digest)", ours.manifest_digest(),
                   theirs.manifest_digest());
}

}  // namespace deltafin
