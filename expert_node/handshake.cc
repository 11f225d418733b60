#include "expert_node/handshake.h"

#include "common/base/printable_text.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxNameSize = 64;

template <typename Value>
absl::Status Differs(std::string_view what, const Value& theirs,
                     const Value& ours, std::string_view remedy) {
  return absl::FailedPreconditionError(
      fmt::format("{} differs: the coordinator has {}, this node has {}; {}",
                  what, theirs, ours, remedy));
}

}  // namespace

absl::Status CheckHandshake(const v1::HandshakeRequest& request,
                            const v1::HandshakeReply& identity) {
  if (request.wire_version() != identity.wire_version()) {
    return Differs("the wire version", request.wire_version(),
                   identity.wire_version(),
                   "install the same deltafin version on both");
  }
  if (request.numerics_version() != identity.numerics_version()) {
    return Differs("the numerics version", request.numerics_version(),
                   identity.numerics_version(),
                   "install the same deltafin version on both");
  }
  if (request.manifest_digest() != identity.manifest_digest()) {
    return Differs("the model (manifest SHA-256)",
                   OneLine(request.manifest_digest().substr(0, kMaxNameSize)),
                   identity.manifest_digest(),
                   "start both with the same model files");
  }
  return absl::OkStatus();
}

std::string NameOfCoordinator(const v1::HandshakeRequest& request) {
  return OneLine(request.coordinator().substr(0, kMaxNameSize));
}

}  // namespace deltafin
