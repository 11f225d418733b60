#include "coordinator/cluster/join_check.h"

#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "common/net/credentials.h"
#include "common/net/listen_address.h"
#include "coordinator/cluster/epoch_file.h"
#include "coordinator/cluster/word_check.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kMaxIdSize = 128;
constexpr size_t kMaxAddressSize = 270;  // a DNS name and a port
constexpr size_t kDigestSize = 64;       // SHA-256 in hex
constexpr uint32_t kMaxCores = 65536;
constexpr double kMaxRate = 1e14;
constexpr uint32_t kMaxOrders = 256;

absl::Status Bad(std::string_view field, std::string_view accepted) {
  return absl::InvalidArgumentError(
      fmt::format("{}: want {}", field, accepted));
}

absl::Status CheckAddress(const std::string& text) {
  RETURN_IF_ERROR(CheckWord("address", text, 1, kMaxAddressSize));
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(text);
  if (!address.ok() || address->host.empty() || address->port == 0) {
    return Bad(fmt::format("address '{}'", text),
               "HOST:PORT where the coordinator reaches the node");
  }
  return absl::OkStatus();
}

absl::Status CheckRate(std::string_view field, double rate) {
  if (rate >= 0 && rate <= kMaxRate) return absl::OkStatus();  // false for NaN
  return Bad(fmt::format("capacity.{} {}", field, rate),
             "0 (not measured) to 1e14 bytes a second");
}

absl::Status CheckCapacity(const v1::NodeCapacity& capacity) {
  if (capacity.cores() > kMaxCores) {
    return Bad(fmt::format("capacity.cores {}", capacity.cores()),
               "at most 65536");
  }
  RETURN_IF_ERROR(
      CheckRate("read_bytes_per_second", capacity.read_bytes_per_second()));
  return CheckRate("kernel_bytes_per_second",
                   capacity.kernel_bytes_per_second());
}

absl::Status CheckProcess(const std::string& node_id, uint64_t incarnation) {
  RETURN_IF_ERROR(CheckWord("node_id", node_id, 1, kMaxIdSize));
  if (incarnation != 0) return absl::OkStatus();
  return Bad("incarnation 0", "a number drawn when the process starts, not 0");
}

// What a coordinator tells is above all that it heard of and counts, so that
// what comes back from others may be, too.
constexpr uint64_t kMaxEpoch = 2 * kMaxReportedEpoch;

absl::Status CheckEpoch(uint64_t epoch) {
  if (epoch <= kMaxEpoch) return absl::OkStatus();
  return Bad(fmt::format("highest_epoch {}", epoch),
             fmt::format("at most {}", kMaxEpoch));
}

}  // namespace

absl::Status CheckJoinFields(const v1::JoinRequest& request) {
  const v1::HandshakeReply& identity = request.identity();
  RETURN_IF_ERROR(CheckProcess(identity.node_id(), request.incarnation()));
  RETURN_IF_ERROR(CheckIdentityWords(identity));
  RETURN_IF_ERROR(CheckAddress(request.address()));
  RETURN_IF_ERROR(CheckWord("home", request.home(), kDigestSize, kDigestSize));
  RETURN_IF_ERROR(CheckEpoch(request.highest_epoch()));
  return CheckCapacity(request.capacity());
}

absl::Status CheckReach(const std::string& address, bool loopback_only) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ListenAddress::Parse(address));
  return RequireProtected("connect to", parsed, loopback_only);
}

absl::Status CheckHeartbeatFields(const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(CheckProcess(request.node_id(), request.incarnation()));
  RETURN_IF_ERROR(CheckEpoch(request.highest_epoch()));
  return CheckCapacity(request.capacity());
}

absl::Status CheckNextCopiesFields(const v1::NextCopiesRequest& request) {
  RETURN_IF_ERROR(CheckProcess(request.node_id(), request.incarnation()));
  const uint32_t max_orders = request.max_orders();
  if (max_orders >= 1 && max_orders <= kMaxOrders) return absl::OkStatus();
  return Bad(fmt::format("max_orders {}", max_orders),
             fmt::format("1 to {}", kMaxOrders));
}

absl::Status CheckLeaveFields(const v1::LeaveRequest& request) {
  return CheckProcess(request.node_id(), request.incarnation());
}

absl::Status CheckFindOwnersFields(const v1::FindOwnersRequest& request) {
  return CheckProcess(request.node_id(), request.incarnation());
}

}  // namespace deltafin
