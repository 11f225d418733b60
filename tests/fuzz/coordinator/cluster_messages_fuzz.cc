// Input: a byte that says which message, then the bytes of what a node sends:
// JoinRequest, HeartbeatRequest, LeaveRequest, NextCopiesRequest,
// FindOwnersRequest or HandshakeReply, or who looks after the cluster:
// GetPlacementRequest, DrainRequest. A registry that already has two
// members, one of which holds nothing yet, must refuse or take it, and stay
// whole.

#include <string>

#include "common/base/check.h"
#include "tests/fuzz/coordinator/fuzz_registry.h"
#include "tests/fuzz/silence.h"

using deltafin::NodeRegistry;

namespace {

template <typename Request>
absl::Status Give(const uint8_t* bytes, size_t size, auto call) {
  Request request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) {
    return absl::OkStatus();
  }
  return call(request);
}

absl::Status CheckedCopies(NodeRegistry& registry,
                           const deltafin::v1::NextCopiesRequest& request) {
  const auto reply = registry.NextCopies(request);
  if (!reply.ok()) return reply.status();
  CHECK(reply->orders_size() <= static_cast<int>(request.max_orders()));
  for (const deltafin::v1::CopyOrder& order : reply->orders()) {
    CHECK(order.first_slice() + order.num_slices() <= 4);
  }
  return absl::OkStatus();
}

absl::Status CheckedOwners(NodeRegistry& registry,
                           const deltafin::v1::FindOwnersRequest& request) {
  const auto reply = registry.FindOwners(request);
  if (!reply.ok()) return reply.status();
  uint32_t next = request.first_slice();
  for (const deltafin::v1::CopyOrder& run : reply->runs()) {
    CHECK(run.first_slice() == next && run.num_slices() >= 1);
    next += run.num_slices();
  }
  CHECK(next == request.first_slice() + request.num_slices() && next <= 4);
  return absl::OkStatus();
}

absl::Status Drain(NodeRegistry& registry,
                   const deltafin::v1::DrainRequest& request) {
  if (request.undo()) return registry.EndDrain(request.node());
  const absl::StatusOr<int> slot = registry.BeginDrain(request.node());
  if (slot.ok()) registry.drain_facts(*slot);
  return slot.status();
}

// What a node says of itself when the engine's stream to it opens.
absl::Status Greet(NodeRegistry& registry,
                   const deltafin::v1::HandshakeReply& reply) {
  const auto ours =
      deltafin::MakeHandshake({std::string(64, 'd'), "coordinator"});
  const absl::Status status = deltafin::CheckNodeIdentity(ours, reply);
  if (status.ok()) registry.StreamOpened(0, reply);
  return status;
}

absl::Status GiveAny(NodeRegistry& registry, int kind, const uint8_t* bytes,
                     size_t size) {
  using deltafin::v1::DrainRequest;
  using deltafin::v1::FindOwnersRequest;
  using deltafin::v1::GetPlacementRequest;
  using deltafin::v1::HandshakeReply;
  using deltafin::v1::HeartbeatRequest;
  using deltafin::v1::JoinRequest;
  using deltafin::v1::LeaveRequest;
  using deltafin::v1::NextCopiesRequest;
  switch (kind) {
    case 0:
      return Give<JoinRequest>(bytes, size, [&](const JoinRequest& join) {
        return registry.Join(join).status();
      });
    case 1:
      return Give<HeartbeatRequest>(bytes, size,
                                    [&](const HeartbeatRequest& beat) {
                                      return registry.Heartbeat(beat).status();
                                    });
    case 3:
      return Give<NextCopiesRequest>(bytes, size,
                                     [&](const NextCopiesRequest& request) {
                                       return CheckedCopies(registry, request);
                                     });
    case 4:
      return Give<GetPlacementRequest>(
          bytes, size, [&](const GetPlacementRequest& request) {
            return registry.ReportPlacement(request).status();
          });
    case 5:
      return Give<FindOwnersRequest>(bytes, size,
                                     [&](const FindOwnersRequest& request) {
                                       return CheckedOwners(registry, request);
                                     });
    case 6:
      return Give<DrainRequest>(bytes, size, [&](const DrainRequest& request) {
        return Drain(registry, request);
      });
    case 7:
      return Give<HandshakeReply>(
          bytes, size,
          [&](const HandshakeReply& reply) { return Greet(registry, reply); });
    default:
      return Give<LeaveRequest>(bytes, size, [&](const LeaveRequest& leave) {
        return registry.Leave(leave);
      });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  deltafin::ManualClock clock;
  const auto registry = deltafin::MakeFuzzRegistry(clock);
  const absl::Status status =
      GiveAny(*registry, bytes[0] % 8, bytes + 1, size - 1);
  CHECK(status.ok() || !status.message().empty());
  registry->Tick();
  CHECK(registry->placement()->num_slots() <= deltafin::kFuzzMembers + 1);
  const deltafin::v1::ClusterHealth health = registry->health();
  CHECK(health.nodes_size() <= deltafin::kFuzzMembers + 1);
  for (const auto& node : health.nodes()) CHECK(node.name().size() <= 1024);
  return 0;
}
