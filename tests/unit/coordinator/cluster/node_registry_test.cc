#include "coordinator/cluster/node_registry.h"

#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST_F(RegistryTest, ANodeServesFromItsFirstHeartbeatOn) {
  const auto joined = registry_->Join(JoinOf(1));
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->heartbeat_ms(), 1000u);
  EXPECT_EQ(joined->gone_after_ms(), 5000u);
  EXPECT_EQ(joined->epoch(), placement()->epoch());
  EXPECT_EQ(StateOf(1), MemberState::kJoining);
  EXPECT_FALSE(placement()->has_share(SlotOf(1)));

  const auto beat = registry_->Heartbeat(BeatOf(JoinOf(1)));
  ASSERT_TRUE(beat.ok()) << beat.status();
  EXPECT_EQ(beat->state(), "serving");
  EXPECT_EQ(beat->epoch(), placement()->epoch());
  EXPECT_GT(beat->epoch(), joined->epoch());
  EXPECT_TRUE(placement()->has_share(SlotOf(1)));
}

TEST_F(RegistryTest, SilenceMakesSuspectThenGone) {
  Serve(JoinOf(1));
  Pass(absl::Milliseconds(2000));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  Pass(absl::Milliseconds(2999));
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(StateOf(1), MemberState::kGone);
  EXPECT_EQ(placement()->member(SlotOf(1)).channel, nullptr);
  EXPECT_EQ(BeatCode(JoinOf(1)), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, ALateHeartbeatMakesASilentNodeServeAgain) {
  Serve(JoinOf(1));
  Pass(absl::Seconds(3));
  ASSERT_EQ(StateOf(1), MemberState::kSuspect);
  Beat(JoinOf(1));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(RegistryTest, AFailedNodeNeedsItsStreamBack) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::UnavailableError("broken"));
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  Beat(JoinOf(1));
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  registry_->StreamOpened(SlotOf(1), JoinOf(1).identity());
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(RegistryTest, AFailedAndSilentNodeNeedsBoth) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::UnavailableError("broken"));
  Pass(absl::Seconds(3));
  registry_->StreamOpened(SlotOf(1), JoinOf(1).identity());
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  Beat(JoinOf(1));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(RegistryTest, AnAnswerRedeemsWhoOwedOneAndNobodyElse) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::DeadlineExceededError("silent"));
  registry_->PartAnswered(SlotOf(1), Took(absl::Milliseconds(3)));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  registry_->MemberFailed(SlotOf(1), absl::DataLossError("bad sector"));
  registry_->PartAnswered(SlotOf(1), Took(absl::Milliseconds(3)));
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
}

TEST_F(RegistryTest, WhoFailedGetsWorkOnTrialLater) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::DataLossError("bad sector"));
  for (int second = 0; second < 10; ++second) {
    Pass(absl::Seconds(1));
    Beat(JoinOf(1));
    EXPECT_EQ(StateOf(1), MemberState::kSuspect) << second;
  }
  Pass(absl::Milliseconds(1));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(RegistryTest, ANamedMemberFollowsItsStreamAlone) {
  registry_->AddNamed("127.0.0.1:9", FakeChannel());
  EXPECT_EQ(placement()->member(0).state, MemberState::kServing);
  registry_->MemberFailed(0, absl::UnavailableError("broken"));
  Pass(absl::Hours(1));
  EXPECT_EQ(placement()->member(0).state, MemberState::kSuspect);
  EXPECT_NE(placement()->member(0).channel, nullptr);
  v1::HandshakeReply identity;
  identity.set_node_id("named");
  registry_->StreamOpened(0, identity);
  EXPECT_EQ(placement()->member(0).state, MemberState::kServing);
  EXPECT_THAT(Listed(), ElementsAre("named serving"));
}

TEST_F(RegistryTest, ANamedMemberThatJoinsKeepsItsSlotAndIsNeverGone) {
  const v1::JoinRequest join = JoinOf(1);
  registry_->AddNamed(join.address(), FakeChannel());
  Serve(join);
  EXPECT_EQ(SlotOf(1), 0);
  EXPECT_THAT(Listed(), ElementsAre("id-1 serving"));
  Pass(absl::Hours(1));
  EXPECT_THAT(Listed(), ElementsAre("id-1 suspect"));
  registry_->StreamOpened(0, join.identity());
  EXPECT_THAT(Listed(), ElementsAre("id-1 serving"));
}

TEST_F(RegistryTest, TheSameIdKeepsItsSlotWithANewChannel) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  const auto channel = placement()->member(SlotOf(1)).channel;
  const int slot = SlotOf(1);
  Serve(JoinOf(1, /*incarnation=*/2));
  EXPECT_EQ(SlotOf(1), slot);
  EXPECT_NE(placement()->member(slot).channel, channel);
  EXPECT_EQ(BeatCode(JoinOf(1, 1)), absl::StatusCode::kNotFound);
  EXPECT_EQ(BeatCode(JoinOf(1, 2)), absl::StatusCode::kOk);

  Pass(absl::Seconds(6));
  EXPECT_EQ(StateOf(1), MemberState::kGone);
  Serve(JoinOf(1, 3));
  EXPECT_EQ(SlotOf(1), slot);
}

TEST_F(RegistryTest, JoiningTwiceAsTheSameProcessChangesNothing) {
  Serve(JoinOf(1));
  const auto before = placement();
  ASSERT_TRUE(registry_->Join(JoinOf(1)).ok());
  EXPECT_EQ(placement(), before);
}

TEST_F(RegistryTest, AnotherIdFromTheSameHomeSupersedes) {
  Serve(JoinOf(1));
  v1::JoinRequest wiped = JoinOf(2);
  wiped.set_home(HomeOf(1));
  Serve(wiped);
  EXPECT_THAT(Listed(), ElementsAre("id-2 serving"));
  EXPECT_EQ(BeatCode(JoinOf(1)), absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, AnotherIdAtTheSameAddressSupersedes) {
  Serve(JoinOf(1));
  v1::JoinRequest other = JoinOf(2);
  other.set_address(JoinOf(1).address());
  Serve(other);
  EXPECT_THAT(Listed(), ElementsAre("id-2 serving"));
}

TEST_F(RegistryTest, ACopiedFolderIsRefusedWhileTheOtherServes) {
  Serve(JoinOf(1));
  v1::JoinRequest copy = JoinOf(2);
  copy.mutable_identity()->set_node_id("id-1");
  const absl::Status status = registry_->Join(copy).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(MessageOf(status), HasSubstr(JoinOf(1).address()));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  Pass(absl::Seconds(3));
  EXPECT_TRUE(registry_->Join(copy).ok());
}

TEST_F(RegistryTest, WhoLeavesIsListedNoMoreAndMayComeBack) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  v1::LeaveRequest leave;
  leave.set_node_id("id-1");
  leave.set_incarnation(99);  // of a process before
  ASSERT_TRUE(registry_->Leave(leave).ok());
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  leave.set_incarnation(1);
  ASSERT_TRUE(registry_->Leave(leave).ok());
  EXPECT_THAT(Listed(), ElementsAre("id-2 serving"));
  EXPECT_EQ(registry_->health().verdict(), v1::ClusterHealth::HEALTHY);
  Serve(JoinOf(1, 2));
  EXPECT_THAT(Listed(), ElementsAre("id-1 serving", "id-2 serving"));
}

TEST_F(RegistryTest, ANamedMemberThatLeavesIsStillListed) {
  const v1::JoinRequest join = JoinOf(1);
  registry_->AddNamed(join.address(), FakeChannel());
  Serve(join);
  v1::LeaveRequest leave;
  leave.set_node_id("id-1");
  leave.set_incarnation(1);
  ASSERT_TRUE(registry_->Leave(leave).ok());
  EXPECT_THAT(Listed(), ElementsAre("id-1 suspect"));
}

TEST_F(RegistryTest, ADrainingNodeHasNoShare) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  ASSERT_TRUE(registry_->BeginDrain("id-1").ok());
  EXPECT_EQ(StateOf(1), MemberState::kDraining);
  EXPECT_FALSE(placement()->has_share(SlotOf(1)));
  ASSERT_TRUE(registry_->EndDrain("id-1").ok());
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  EXPECT_EQ(registry_->BeginDrain("nobody").status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(RegistryTest, EveryChangeHasTheNextEpochAndNothingElseDoes) {
  Serve(JoinOf(1));
  uint64_t epoch = placement()->epoch();
  Beat(JoinOf(1));
  registry_->Tick();
  EXPECT_EQ(placement()->epoch(), epoch);
  registry_->MemberFailed(0, absl::UnavailableError("broken"));
  EXPECT_EQ(placement()->epoch(), ++epoch);
  registry_->MemberFailed(0, absl::UnavailableError("still broken"));
  EXPECT_EQ(placement()->epoch(), epoch);
}

TEST_F(RegistryTest, EpochsExceedWhatNodesWereToldBefore) {
  v1::JoinRequest join = JoinOf(1);
  join.set_highest_epoch(1'000'000);
  const auto reply = registry_->Join(join);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->epoch(), 1'000'001u);
  v1::HeartbeatRequest beat = BeatOf(join);
  beat.set_highest_epoch(2'000'000);
  EXPECT_EQ(registry_->Heartbeat(beat)->epoch(), 2'000'001u);
}

// One member's word must not make the registry refuse the others for good.
TEST_F(RegistryTest, WhatNodesWereToldIsTakenBackWhateverOneReports) {
  v1::JoinRequest liar = JoinOf(1);
  liar.set_highest_epoch(uint64_t{1} << 63);
  const auto reply = registry_->Join(liar);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->epoch(), kMaxReportedEpoch + 1);
  v1::JoinRequest join = JoinOf(2);
  join.set_highest_epoch(reply->epoch());
  const auto joined = registry_->Join(join);
  ASSERT_TRUE(joined.ok()) << joined.status();
  v1::HeartbeatRequest beat = BeatOf(join);
  beat.set_highest_epoch(joined->epoch());
  const auto heard = registry_->Heartbeat(beat);
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_GT(heard->epoch(), joined->epoch());
}

TEST_F(RegistryTest, MeasuredSpeedsMakeShares) {
  v1::JoinRequest slow = JoinOf(1), fast = JoinOf(2);
  slow.mutable_capacity()->set_read_bytes_per_second(1e9);
  fast.mutable_capacity()->set_read_bytes_per_second(3e9);
  ASSERT_TRUE(registry_->Join(slow).ok());
  ASSERT_TRUE(registry_->Join(fast).ok());
  const auto beat = [&](v1::JoinRequest& join, double read) {
    v1::HeartbeatRequest request = BeatOf(join);
    request.mutable_capacity()->set_read_bytes_per_second(read);
    ASSERT_TRUE(registry_->Heartbeat(request).ok());
  };
  beat(slow, 1e9);
  beat(fast, 3e9);
  const v1::ClusterHealth health = registry_->health();
  EXPECT_DOUBLE_EQ(health.nodes(0).share(), 0.25);
  EXPECT_DOUBLE_EQ(health.nodes(1).share(), 0.75);
  const uint64_t epoch = placement()->epoch();
  beat(fast, 3.2e9);  // too little to move slices for
  EXPECT_EQ(placement()->epoch(), epoch);
  beat(fast, 4e9);
  EXPECT_EQ(placement()->epoch(), epoch + 1);
}

TEST_F(RegistryTest, EqualMachinesHaveEqualSharesWhoeverCameFirst) {
  for (int i = 1; i <= 3; ++i) {
    v1::JoinRequest join = JoinOf(i);
    join.mutable_capacity()->set_kernel_bytes_per_second(1e9 + 0.06e9 * i);
    ASSERT_TRUE(registry_->Join(join).ok());
    v1::HeartbeatRequest beat = BeatOf(join);
    *beat.mutable_capacity() = join.capacity();
    ASSERT_TRUE(registry_->Heartbeat(beat).ok());
  }
  const v1::ClusterHealth health = registry_->health();
  ASSERT_EQ(health.nodes_size(), 3);
  for (const v1::NodeHealth& node : health.nodes()) {
    EXPECT_DOUBLE_EQ(node.share(), 1.0 / 3);
  }
}

TEST_F(RegistryTest, RefusesAnotherModelWithBothValues) {
  v1::JoinRequest join = JoinOf(1);
  join.mutable_identity()->set_manifest_digest(std::string(64, 'e'));
  const absl::Status status = registry_->Join(join).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr(kDigest));
  EXPECT_THAT(MessageOf(status), HasSubstr(std::string(64, 'e')));
  join = JoinOf(1);
  join.mutable_identity()->set_numerics_version(kNumericsVersion + 1);
  EXPECT_EQ(registry_->Join(join).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(RegistryTest, TellsTimesAndErrorsOfEachNode) {
  v1::JoinRequest join = JoinOf(1);
  join.mutable_capacity()->set_cores(12);
  Serve(join);
  for (uint32_t us = 1; us <= 200; ++us) {  // the last 128 count: 73 to 200
    v1::HeartbeatRequest beat = BeatOf(join);
    beat.set_round_trip_us(us);
    beat.mutable_capacity()->set_cores(12);
    beat.mutable_load()->set_resident_experts(us);
    ASSERT_TRUE(registry_->Heartbeat(beat).ok());
    registry_->PartAnswered(0, Took(absl::Microseconds(10 * us)));
  }
  registry_->MemberFailed(0, absl::UnavailableError("cable"));
  clock_.Advance(absl::Milliseconds(1500));
  const v1::NodeHealth node = registry_->health().nodes(0);
  EXPECT_EQ(node.name(), join.address());
  EXPECT_EQ(node.version(), "1.2.3");
  EXPECT_EQ(node.round_trip_p50_us(), 136u);
  EXPECT_EQ(node.round_trip_p99_us(), 199u);
  EXPECT_EQ(registry_->RoundTrip(0), absl::Microseconds(73));
  EXPECT_EQ(registry_->RoundTrip(9), absl::ZeroDuration());
  EXPECT_EQ(node.layer_p50_us(), 1360u);
  EXPECT_EQ(node.layer_p99_us(), 1990u);
  EXPECT_EQ(node.capacity().cores(), 12u);
  EXPECT_EQ(node.load().resident_experts(), 200u);
  EXPECT_EQ(node.errors(), 1u);
  EXPECT_EQ(node.remark(), "cable");
  EXPECT_EQ(node.last_seen_ms(), 1500u);
}

TEST_F(RegistryTest, AStreamThatLeadsToAnotherNodeMakesSuspect) {
  Serve(JoinOf(1));
  registry_->StreamOpened(SlotOf(1), JoinOf(2).identity());
  EXPECT_EQ(StateOf(1), MemberState::kSuspect);
  EXPECT_THAT(registry_->health().nodes(0).remark(), HasSubstr("id-2"));
}

}  // namespace
}  // namespace deltafin::testing
