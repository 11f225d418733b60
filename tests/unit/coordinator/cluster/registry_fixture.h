// tests/unit/coordinator/cluster/registry_fixture.h
//
// A registry under a clock that is moved by hand, and the messages of nodes.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/node_registry.h"
#include "proto/protocol_version.h"
#include "tests/testing/manual_clock.h"

namespace deltafin::testing {

// The registry only carries channels: any pointer will do.
inline std::shared_ptr<grpc::Channel> FakeChannel() {
  auto object = std::make_shared<int>(0);
  return {object, reinterpret_cast<grpc::Channel*>(object.get())};
}

inline const std::string kDigest(64, 'd');

class RegistryTest : public ::testing::Test {
 protected:
  RegistryTest() { Start(EpochFile::Open("", absl::FromUnixSeconds(100))); }

  void Start(absl::StatusOr<EpochFile> epochs) {
    ASSERT_TRUE(epochs.ok()) << epochs.status();
    registry_ = std::make_unique<NodeRegistry>(
        options_, *std::move(epochs),
        [](const std::string&) { return FakeChannel(); }, clock_);
  }
  // With other options, and no members.
  void Restart() { Start(EpochFile::Open("", absl::FromUnixSeconds(100))); }

  static RegistryOptions DefaultOptions() {
    RegistryOptions options;
    options.placement.num_slices = 4;
    options.extent = {1, 2, 3, 4, 16};
    options.identity = {kDigest, "test"};
    return options;
  }

  // Node `n`: id, address and home follow from it.
  static v1::JoinRequest JoinOf(int n, uint64_t incarnation = 1) {
    v1::JoinRequest join;
    join.mutable_identity()->set_node_id("id-" + std::to_string(n));
    join.mutable_identity()->set_manifest_digest(kDigest);
    join.mutable_identity()->set_wire_version(kWireVersion);
    join.mutable_identity()->set_numerics_version(kNumericsVersion);
    join.mutable_identity()->set_version("1.2.3");
    join.set_address("127.0.0.1:" + std::to_string(7000 + n));
    join.set_home(HomeOf(n));
    join.set_incarnation(incarnation);
    join.mutable_holdings()->set_everything(true);
    return join;
  }
  static std::string HomeOf(int n) {
    std::string home = std::to_string(n);
    return std::string(64 - home.size(), '0') + home;
  }
  static v1::HeartbeatRequest BeatOf(const v1::JoinRequest& join) {
    v1::HeartbeatRequest beat;
    beat.set_node_id(join.identity().node_id());
    beat.set_incarnation(join.incarnation());
    return beat;
  }

  static PartTiming Took(absl::Duration elapsed) {
    PartTiming timing;
    timing.elapsed = elapsed;
    return timing;
  }

  // Joins and sends the first heartbeat.
  void Serve(const v1::JoinRequest& join) {
    const auto reply = registry_->Join(join);
    ASSERT_TRUE(reply.ok()) << reply.status();
    Beat(join);
  }
  void Beat(const v1::JoinRequest& join) {
    const auto reply = registry_->Heartbeat(BeatOf(join));
    ASSERT_TRUE(reply.ok()) << reply.status();
  }
  absl::StatusCode BeatCode(const v1::JoinRequest& join) {
    return registry_->Heartbeat(BeatOf(join)).status().code();
  }
  // Time passes; the ticker runs.
  void Pass(absl::Duration duration) {
    clock_.Advance(duration);
    registry_->Tick();
  }

  std::shared_ptr<const Placement> placement() {
    return registry_->placement();
  }
  // The slot of node `n`; -1: none.
  int SlotOf(int n) {
    const auto now = placement();
    for (int slot = 0; slot < now->num_slots(); ++slot) {
      if (now->member(slot).id == "id-" + std::to_string(n)) return slot;
    }
    return -1;
  }
  MemberState StateOf(int n) {
    const int slot = SlotOf(n);
    return slot < 0 ? MemberState::kGone : placement()->member(slot).state;
  }
  // "id state" of every line of the health table.
  std::vector<std::string> Listed() {
    std::vector<std::string> lines;
    const v1::ClusterHealth health = registry_->health();
    for (const v1::NodeHealth& node : health.nodes()) {
      lines.push_back(node.node_id() + " " + node.state());
    }
    return lines;
  }

  ManualClock clock_;
  RegistryOptions options_ = DefaultOptions();
  std::unique_ptr<NodeRegistry> registry_;
};

}  // namespace deltafin::testing
