// Input: a byte that says which message, then the bytes of what a node sends:
// JoinRequest, HeartbeatRequest, LeaveRequest, NextCopiesRequest,
// FindOwnersRequest or HandshakeReply, or who looks after the cluster:
// GetPlacementRequest, DrainRequest. A registry that already has two
// members, one of which holds nothing yet, must refuse or take it, and stay
// whole.

#include <google/protobuf/stubs/logging.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "coordinator/cluster/node_registry.h"
#include "proto/protocol_version.h"
#include "tests/testing/manual_clock.h"

using deltafin::EpochFile;
using deltafin::NodeRegistry;

namespace {

constexpr int kMembers = 2;

std::shared_ptr<grpc::Channel> FakeChannel() {
  auto object = std::make_shared<int>(0);
  return {object, reinterpret_cast<grpc::Channel*>(object.get())};
}

deltafin::v1::JoinRequest JoinOf(int n) {
  deltafin::v1::JoinRequest join;
  join.mutable_identity()->set_node_id("id-" + std::to_string(n));
  join.mutable_identity()->set_manifest_digest(std::string(64, 'd'));
  join.mutable_identity()->set_wire_version(deltafin::kWireVersion);
  join.mutable_identity()->set_numerics_version(deltafin::kNumericsVersion);
  join.set_address("127.0.0.1:" + std::to_string(7000 + n));
  join.set_home(std::string(63, '0') + std::to_string(n));
  join.set_incarnation(1);
  deltafin::SliceSet(1, 2, 3, 4).ToProto(join.mutable_holdings());
  join.mutable_holdings()->set_everything(n == 0);
  return join;
}

std::unique_ptr<NodeRegistry> MakeRegistry(const deltafin::Clock& clock) {
  deltafin::RegistryOptions options;
  options.placement.num_slices = 4;
  options.extent = {1, 2, 3, 4, 16};
  options.identity = {std::string(64, 'd'), "fuzz"};
  auto registry = std::make_unique<NodeRegistry>(
      options, *EpochFile::Open("", absl::FromUnixSeconds(100)),
      [](const std::string&) { return FakeChannel(); }, clock);
  for (int n = 0; n < kMembers; ++n) {
    CHECK_OK(registry->Join(JoinOf(n)).status());
    deltafin::v1::HeartbeatRequest beat;
    beat.set_node_id(JoinOf(n).identity().node_id());
    beat.set_incarnation(1);
    CHECK_OK(registry->Heartbeat(beat).status());
  }
  registry->Tick();
  return registry;
}

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

// Neither what nodes do nor what is wrong with bytes is news here.
bool Silence() {
  spdlog::set_level(spdlog::level::off);
  google::protobuf::SetLogHandler(nullptr);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = Silence();
  if (size == 0 || !silent) return 0;
  deltafin::ManualClock clock;
  const auto registry = MakeRegistry(clock);
  const absl::Status status =
      GiveAny(*registry, bytes[0] % 8, bytes + 1, size - 1);
  CHECK(status.ok() || !status.message().empty());
  registry->Tick();
  CHECK(registry->placement()->num_slots() <= kMembers + 1);
  const deltafin::v1::ClusterHealth health = registry->health();
  CHECK(health.nodes_size() <= kMembers + 1);
  for (const auto& node : health.nodes()) CHECK(node.name().size() <= 1024);
  return 0;
}
