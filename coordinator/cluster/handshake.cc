#include "coordinator/cluster/handshake.h"

#include <algorithm>
#include <string_view>

#include "common/base/status_macros.h"
#include "proto/protocol_version.h"

namespace deltafin {
namespace {

constexpr size_t kMaxIdSize = 128;
constexpr size_t kMaxNameSize = 64;
constexpr size_t kDigestSize = 64;  // SHA-256 in hex

absl::Status CheckSame(std::string_view what, std::string_view ours,
                       std::string_view theirs) {
  if (ours == theirs) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} differs: the coordinator has {}, the node has {}; start both from "
      "the same model and release",
      what, ours, theirs));
}

}  // namespace

absl::Status CheckWord(std::string_view field, std::string_view word,
                       size_t least, size_t most) {
  const bool printable = std::all_of(
      word.begin(), word.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (printable && word.size() >= least && word.size() <= most) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} of {} bytes: want {} to {} printable ASCII characters without blanks",
      field, word.size(), least, most));
}

absl::Status CheckIdentityWords(const v1::HandshakeReply& identity) {
  RETURN_IF_ERROR(
      CheckWord("identity.node_id", identity.node_id(), 0, kMaxIdSize));
  RETURN_IF_ERROR(CheckWord("identity.manifest_digest",
                            identity.manifest_digest(), 0, kDigestSize));
  RETURN_IF_ERROR(
      CheckWord("identity.kernel", identity.kernel(), 0, kMaxNameSize));
  return CheckWord("identity.version", identity.version(), 0, kMaxNameSize);
}

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
