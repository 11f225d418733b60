#include "expert_node/join_answer.h"

#include <algorithm>

#include "common/base/printable_text.h"

namespace deltafin {
namespace {

constexpr absl::Duration kLeastHeartbeat = absl::Milliseconds(1);
constexpr absl::Duration kLongestHeartbeat = absl::Minutes(1);
constexpr size_t kShownOfId = 8;

}  // namespace

JoinedCluster ReadJoinReply(const v1::JoinReply& reply) {
  return {OneLine(reply.coordinator_id().substr(0, kShownOfId)),
          std::clamp(absl::Milliseconds(reply.heartbeat_ms()), kLeastHeartbeat,
                     kLongestHeartbeat)};
}

}  // namespace deltafin
