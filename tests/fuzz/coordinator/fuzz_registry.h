// tests/fuzz/coordinator/fuzz_registry.h
//
// A coordinator's registry with members, as messages of foreign bytes meet it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "coordinator/cluster/node_registry.h"
#include "proto/protocol_version.h"
#include "tests/testing/manual_clock.h"

namespace deltafin {

// Of the registry below; one of them holds nothing yet.
inline constexpr int kFuzzMembers = 2;

// The registry only carries channels: any pointer will do.
inline std::shared_ptr<grpc::Channel> FuzzChannel() {
  auto object = std::make_shared<int>(0);
  return {object, reinterpret_cast<grpc::Channel*>(object.get())};
}

inline v1::JoinRequest FuzzJoinOf(int n) {
  v1::JoinRequest join;
  join.mutable_identity()->set_node_id("id-" + std::to_string(n));
  join.mutable_identity()->set_manifest_digest(std::string(64, 'd'));
  join.mutable_identity()->set_wire_version(kWireVersion);
  join.mutable_identity()->set_numerics_version(kNumericsVersion);
  join.set_address("127.0.0.1:" + std::to_string(7000 + n));
  join.set_home(std::string(63, '0') + std::to_string(n));
  join.set_incarnation(1);
  SliceSet(1, 2, 3, 4).ToProto(join.mutable_holdings());
  join.mutable_holdings()->set_everything(n == 0);
  return join;
}

// Two members in service. `clock` must outlive it.
inline std::unique_ptr<NodeRegistry> MakeFuzzRegistry(const Clock& clock) {
  RegistryOptions options;
  options.placement.num_slices = 4;
  options.extent = {1, 2, 3, 4, 16};
  options.identity = {std::string(64, 'd'), "fuzz"};
  auto registry = std::make_unique<NodeRegistry>(
      options, *EpochFile::Open("", absl::FromUnixSeconds(100)),
      [](const std::string&) { return FuzzChannel(); }, clock);
  for (int n = 0; n < kFuzzMembers; ++n) {
    CHECK_OK(registry->Join(FuzzJoinOf(n)).status());
    v1::HeartbeatRequest beat;
    beat.set_node_id(FuzzJoinOf(n).identity().node_id());
    beat.set_incarnation(1);
    CHECK_OK(registry->Heartbeat(beat).status());
  }
  registry->Tick();
  return registry;
}

}  // namespace deltafin
