// What a registry tells members to copy, and when.

#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CopiesTest : public RegistryTest {
 protected:
  // 2 layers of 3 experts of 4 slices.
  static SliceSet Nothing() { return SliceSet(1, 2, 3, 4); }
  static v1::JoinRequest JoinWith(int n, const SliceSet& holdings) {
    v1::JoinRequest join = JoinOf(n);
    join.clear_holdings();
    holdings.ToProto(join.mutable_holdings());
    return join;
  }
  static v1::NextCopiesRequest AskOf(int n, uint32_t max_orders = 256) {
    v1::NextCopiesRequest request;
    request.set_node_id("id-" + std::to_string(n));
    request.set_incarnation(1);
    request.set_max_orders(max_orders);
    return request;
  }
  v1::NextCopiesReply Ask(int n) {
    auto reply = registry_->NextCopies(AskOf(n));
    EXPECT_TRUE(reply.ok()) << reply.status();
    return reply.value_or(v1::NextCopiesReply());
  }
  absl::StatusCode CodeOf(const v1::NextCopiesRequest& request) {
    return registry_->NextCopies(request).status().code();
  }
  // The node takes all orders and tells what it has now.
  void Obey(int n, SliceSet* holdings) {
    const v1::NextCopiesReply reply = Ask(n);
    for (const v1::CopyOrder& order : reply.orders()) {
      holdings->Add(
          {static_cast<int>(order.layer()), static_cast<int>(order.expert())},
          {static_cast<int>(order.first_slice()),
           static_cast<int>(order.num_slices())});
    }
    v1::HeartbeatRequest beat = BeatOf(JoinOf(n));
    holdings->ToProto(beat.mutable_holdings());
    ASSERT_TRUE(registry_->Heartbeat(beat).ok());
    registry_->Tick();
  }
};

TEST_F(CopiesTest, AnEmptyNodeFillsAndThenHasNothingToDo) {
  options_.copy_bytes_per_second = 12345;
  Restart();
  Serve(JoinOf(1));
  SliceSet holdings = Nothing();
  Serve(JoinWith(2, holdings));
  EXPECT_EQ(Ask(2).orders_size(), 0);  // not planned yet
  EXPECT_GT(Ask(2).retry_ms(), 0u);
  registry_->Tick();
  const v1::NextCopiesReply reply = Ask(2);
  EXPECT_EQ(reply.missing_slices(), 12u);
  EXPECT_EQ(reply.bytes_per_second(), 12345u);
  EXPECT_EQ(reply.epoch(), placement()->epoch());
  ASSERT_GT(reply.orders_size(), 0);
  EXPECT_THAT(reply.orders(0).owners(), ElementsAre(JoinOf(1).address()));
  Obey(2, &holdings);
  EXPECT_EQ(holdings.size(), 12);
  EXPECT_EQ(Ask(2).orders_size(), 0);
  EXPECT_EQ(Ask(2).missing_slices(), 0u);
  const v1::NodeHealth node = registry_->health().nodes(1);
  EXPECT_EQ(node.meant_slices(), 12u);
  EXPECT_EQ(node.missing_slices(), 0u);
  EXPECT_GE(node.copy_orders(), 1u);
}

TEST_F(CopiesTest, RefusesWhoIsNoMemberAndWhatIsOutOfBounds) {
  Serve(JoinOf(1));
  EXPECT_EQ(CodeOf(AskOf(2)), absl::StatusCode::kNotFound);
  v1::NextCopiesRequest other = AskOf(1);
  other.set_incarnation(2);
  EXPECT_EQ(CodeOf(other), absl::StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(AskOf(1, 0)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(AskOf(1, 257)), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(AskOf(1, 256)), absl::StatusCode::kOk);
  other.set_node_id("");
  EXPECT_EQ(CodeOf(other), absl::StatusCode::kInvalidArgument);
}

TEST_F(CopiesTest, NothingMovesForAMemberThatIsBackSoon) {
  Serve(JoinOf(1));
  SliceSet two = Nothing(), three = Nothing();
  Serve(JoinWith(2, two));
  Serve(JoinWith(3, three));
  registry_->Tick();
  Obey(2, &two);
  Obey(3, &three);
  // Two minutes without node 1, which holds everything.
  for (int second = 0; second < 120; ++second) {
    Pass(absl::Seconds(1));
    Beat(JoinOf(2));
    Beat(JoinOf(3));
  }
  EXPECT_EQ(StateOf(1), MemberState::kGone);
  EXPECT_EQ(Ask(2).missing_slices(), 0u);
  for (int second = 0; second < 200; ++second) {
    Pass(absl::Seconds(1));
    Beat(JoinOf(2));
    Beat(JoinOf(3));
  }
  EXPECT_GT(Ask(2).missing_slices(), 0u);
}

TEST_F(CopiesTest, NodesThatComeBackAfterARestartAreWaitedFor) {
  options_.copies_begin_after = absl::Seconds(5);
  Restart();
  Serve(JoinOf(1));
  Serve(JoinWith(2, Nothing()));
  Pass(absl::Seconds(1));
  Beat(JoinOf(1));
  Beat(JoinOf(2));
  EXPECT_EQ(Ask(2).orders_size(), 0);
  Pass(absl::Seconds(4));
  Beat(JoinOf(1));
  Beat(JoinOf(2));
  registry_->Tick();
  EXPECT_GT(Ask(2).orders_size(), 0);
}

TEST_F(CopiesTest, ASourceMakesWhatNobodyHasADegradation) {
  Serve(JoinWith(1, Nothing()));
  registry_->Tick();
  EXPECT_EQ(registry_->health().verdict(), v1::ClusterHealth::DOWN);
  EXPECT_EQ(registry_->health().uncovered_slices(), 24u);
  v1::NextCopiesRequest ask = AskOf(1);
  ask.set_has_source(true);
  ASSERT_TRUE(registry_->NextCopies(ask).ok());
  const v1::ClusterHealth health = registry_->health();
  EXPECT_EQ(health.verdict(), v1::ClusterHealth::DEGRADED);
  EXPECT_THAT(health.reason(), HasSubstr("24 of 24 slices"));
  registry_->Tick();
  const auto reply = registry_->NextCopies(ask);
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->orders_size(), 6);
  EXPECT_EQ(reply->orders(0).owners_size(), 0);
}

TEST_F(CopiesTest, ADrainCopiesWhatTheNodeAloneHas) {
  Serve(JoinOf(1));
  SliceSet two = Nothing();
  Serve(JoinWith(2, two));
  registry_->Tick();
  Obey(2, &two);
  const auto slot = registry_->BeginDrain("id-1");
  ASSERT_TRUE(slot.ok()) << slot.status();
  EXPECT_EQ(StateOf(1), MemberState::kDraining);
  DrainFacts facts = registry_->drain_facts(*slot);
  EXPECT_EQ(facts.slices_only_here, 12);
  EXPECT_EQ(facts.alone_at_start, 12);
  EXPECT_TRUE(facts.others_copy);
  const DrainStep copying = JudgeDrain(facts).value();
  EXPECT_FALSE(copying.done);
  EXPECT_THAT(copying.sentence, HasSubstr("0 of 12 slices"));
  registry_->Tick();
  const v1::NextCopiesReply reply = Ask(2);
  EXPECT_EQ(reply.missing_slices(), 12u);
  EXPECT_THAT(reply.orders(0).owners(), ElementsAre(JoinOf(1).address()));
  Obey(2, &two);
  facts = registry_->drain_facts(*slot);
  EXPECT_EQ(facts.slices_only_here, 0);
  EXPECT_EQ(facts.alone_at_start, 12);
}

TEST_F(CopiesTest, DrainsAreKeptAndTakenOverFromTheProcessBefore) {
  std::vector<std::set<std::string>> kept;
  options_.drained = {"id-2"};
  options_.keep_drained = [&](const std::set<std::string>& ids) {
    kept.push_back(ids);
  };
  Restart();
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  Serve(JoinOf(3));
  EXPECT_EQ(StateOf(2), MemberState::kDraining);
  EXPECT_TRUE(kept.empty());
  ASSERT_TRUE(registry_->BeginDrain("id-1").ok());
  ASSERT_TRUE(registry_->BeginDrain("id-1").ok());
  ASSERT_TRUE(registry_->EndDrain("id-2").ok());
  EXPECT_EQ(kept,
            (std::vector<std::set<std::string>>{{"id-1", "id-2"}, {"id-1"}}));
  EXPECT_EQ(StateOf(2), MemberState::kServing);
}

TEST_F(CopiesTest, PlansWhatWouldBeCopiedAndChangesNothing) {
  options_.extent.slice_bytes = 100;
  Restart();
  Serve(JoinOf(1));
  SliceSet two = Nothing();
  Serve(JoinWith(2, two));
  registry_->Tick();
  Obey(2, &two);
  const uint64_t epoch = placement()->epoch();
  v1::GetPlacementRequest request;
  request.add_without("127.0.0.1:7001");
  auto report = registry_->ReportPlacement(request);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->shares_size(), 2);
  EXPECT_EQ(report->shares(0).slices_wanted(), 0u);
  EXPECT_EQ(report->shares(1).slices_wanted(), 24u);
  EXPECT_EQ(report->shares(1).slices_missing(), 12u);
  EXPECT_EQ(report->slice_bytes(), 100u);
  EXPECT_EQ(report->uncovered_slices(), 0u);
  request.clear_without();
  request.set_copies(2);
  report = registry_->ReportPlacement(request);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->copies(), 2u);
  EXPECT_EQ(report->shares(1).slices_missing(), 12u);
  EXPECT_EQ(placement()->epoch(), epoch);
  EXPECT_EQ(StateOf(1), MemberState::kServing);

  request.set_copies(17);
  EXPECT_EQ(registry_->ReportPlacement(request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.set_copies(0);
  request.add_without("nobody");
  EXPECT_EQ(registry_->ReportPlacement(request).status().code(),
            absl::StatusCode::kNotFound);
  request.set_without(0, "id-1");
  request.add_without("id-2");
  const absl::Status nobody = registry_->ReportPlacement(request).status();
  EXPECT_EQ(nobody.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(nobody.message()),
              HasSubstr("no node would be left"));
}

}  // namespace
}  // namespace deltafin::testing
