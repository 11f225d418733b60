#include "coordinator/cluster/drain.h"

#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<NodeName> kNodes = {
    {0, "abc1", "10.0.0.1:7400"}, {1, "abd2", "10.0.0.2:7400"},
    {2, "ab", "10.0.0.3:7400"},   {-1, "f00", ""},
    {4, "", "in-process"},
};

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(FindNodeTest, TakesAnIdAnAddressOrABeginningThatOnlyOneHas) {
  EXPECT_EQ(FindNode(kNodes, "abd2").value(), 1);
  EXPECT_EQ(FindNode(kNodes, "10.0.0.3:7400").value(), 2);
  EXPECT_EQ(FindNode(kNodes, "abc").value(), 0);
  EXPECT_EQ(FindNode(kNodes, "in-process").value(), 4);
  EXPECT_EQ(FindNode(kNodes, "f").value(), 3);
  // An id is meant although others begin with it.
  EXPECT_EQ(FindNode(kNodes, "ab").value(), 2);
}

TEST(FindNodeTest, AnAmbiguousBeginningListsWhoHasItAndNobodyElse) {
  const absl::Status status = FindNode(kNodes, "a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("abc1 (10.0.0.1:7400)"), HasSubstr("abd2"),
                    Not(HasSubstr("f00"))));
}

TEST(FindNodeTest, AnUnknownNodeListsAll) {
  for (const std::string name : {"10.0.0", "nobody", ""}) {
    const absl::Status status = FindNode(kNodes, name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(MessageOf(status),
                AllOf(HasSubstr("abc1"), HasSubstr("in-process"),
                      HasSubstr("f00 (not here now)")));
  }
  EXPECT_THAT(MessageOf(FindNode({}, "a").status()), HasSubstr("none"));
}

DrainFacts QuietFacts() {
  DrainFacts facts;
  facts.name = "n";
  facts.heartbeat = absl::Seconds(1);
  facts.quiet = absl::Seconds(2);
  return facts;
}

bool IsDone(const DrainFacts& facts) { return JudgeDrain(facts).value().done; }

TEST(JudgeDrainTest, IsDoneWhenTheNodeWasQuietForTwoHeartbeats) {
  DrainFacts facts = QuietFacts();
  EXPECT_TRUE(IsDone(facts));
  EXPECT_EQ(JudgeDrain(facts)->sentence, "node n may be switched off");
  facts.quiet -= absl::Nanoseconds(1);
  EXPECT_FALSE(IsDone(facts));
}

TEST(JudgeDrainTest, WaitsForRequestsAHeartbeatAndAnotherOwner) {
  DrainFacts facts = QuietFacts();
  facts.requests_here = 3;
  EXPECT_FALSE(IsDone(facts));
  EXPECT_THAT(JudgeDrain(facts)->sentence, HasSubstr("3 requests"));
  facts = QuietFacts();
  facts.was_heard = false;
  EXPECT_FALSE(IsDone(facts));
  facts = QuietFacts();
  facts.slices_only_here = 12;
  facts.alone_at_start = 40;
  EXPECT_FALSE(IsDone(facts));
  EXPECT_THAT(JudgeDrain(facts)->sentence, HasSubstr("28 of 40 slices"));
  EXPECT_TRUE(JudgeDrain(facts)->is_copying);
  facts.others_copy = false;
  EXPECT_THAT(JudgeDrain(facts)->sentence, HasSubstr("no node is there"));
}

TEST(JudgeDrainTest, ANodeThatIsAwayIsDoneAndOneTakenBackIsAnError) {
  DrainFacts facts = QuietFacts();
  facts.is_there = false;
  facts.slices_only_here = 12;
  EXPECT_TRUE(IsDone(facts));
  facts.is_draining = false;
  EXPECT_EQ(JudgeDrain(facts).status().code(), absl::StatusCode::kAborted);
}

class DrainTest : public RegistryTest {
 protected:
  // The model has layers 1 and 2 of 3 experts of 4 slices: 24 slices in all.
  static v1::JoinRequest JoinWith(int n, const SliceSet& holdings) {
    v1::JoinRequest join = JoinOf(n);
    join.clear_holdings();
    holdings.ToProto(join.mutable_holdings());
    return join;
  }
  static SliceSet FirstSlices(int count) {
    SliceSet set(1, 2, 3, 4);
    for (int layer = 1; layer <= 2; ++layer) {
      for (int expert = 0; expert < 3; ++expert) {
        set.Add({layer, expert}, {0, count});
      }
    }
    return set;
  }
};

TEST_F(DrainTest, CountsWhatNoServingNodeHasBesides) {
  Serve(JoinWith(1, FirstSlices(4)));
  Serve(JoinWith(2, FirstSlices(1)));
  Serve(JoinWith(3, FirstSlices(3)));
  const auto only_on = [this](int n) {
    return SlicesOnlyOn(SlotOf(n), *placement(), options_.extent);
  };
  EXPECT_EQ(only_on(1), 6);
  EXPECT_EQ(only_on(2), 0);
  EXPECT_EQ(only_on(3), 0);
  // Who is taken out of service himself is no owner to rely on.
  ASSERT_TRUE(registry_->BeginDrain("id-3").ok());
  EXPECT_EQ(only_on(1), 18);
  Serve(JoinOf(4));
  EXPECT_EQ(only_on(1), 0);
}

TEST_F(DrainTest, RefusesANodeThatAloneHasSomethingWhereNobodyCopies) {
  Serve(JoinOf(1));
  const absl::Status status = registry_->BeginDrain("id-1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("24 slices"), HasSubstr("start another node")));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  Serve(JoinWith(2, FirstSlices(3)));
  ASSERT_TRUE(registry_->BeginDrain("id-2").ok());
  EXPECT_EQ(StateOf(2), MemberState::kDraining);
  // The other one that could copy is draining.
  EXPECT_EQ(registry_->BeginDrain("id-1").status().code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(registry_->EndDrain("id-2").ok());
  ASSERT_TRUE(registry_->BeginDrain("id-1").ok());
  EXPECT_EQ(StateOf(1), MemberState::kDraining);
}

TEST_F(DrainTest, LastsOverDeathsAndLongAbsenceUntilItIsUndone) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  ASSERT_TRUE(registry_->BeginDrain("127.0.0.1:7001").ok());
  Serve(JoinOf(1, 2));
  EXPECT_EQ(StateOf(1), MemberState::kDraining);
  for (int second = 0; second < 700; ++second) {
    Pass(absl::Seconds(1));
    Beat(JoinOf(2));
  }
  EXPECT_THAT(Listed(), ::testing::ElementsAre("id-2 serving"));
  Serve(JoinOf(1, 3));
  EXPECT_EQ(StateOf(1), MemberState::kDraining);
  ASSERT_TRUE(registry_->EndDrain("id-1").ok());
  EXPECT_EQ(StateOf(1), MemberState::kServing);
  Serve(JoinOf(1, 4));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(DrainTest, CanBeUndoneWhileTheNodeIsAway) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  ASSERT_TRUE(registry_->BeginDrain("id-1").ok());
  v1::LeaveRequest leave;
  leave.set_node_id("id-1");
  leave.set_incarnation(1);
  ASSERT_TRUE(registry_->Leave(leave).ok());
  for (int second = 0; second < 700; ++second) {
    Pass(absl::Seconds(1));
    Beat(JoinOf(2));
  }
  EXPECT_EQ(registry_->BeginDrain("id-1").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_TRUE(registry_->EndDrain("id-1").ok());
  EXPECT_EQ(registry_->EndDrain("id-1").code(), absl::StatusCode::kNotFound);
  Serve(JoinOf(1, 2));
  EXPECT_EQ(StateOf(1), MemberState::kServing);
}

TEST_F(DrainTest, KnowsWhenANodeIsQuiet) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  clock_.Advance(absl::Seconds(1));
  const auto slot = registry_->BeginDrain("id-1");
  ASSERT_TRUE(slot.ok()) << slot.status();
  EXPECT_FALSE(registry_->drain_facts(*slot).was_heard);
  clock_.Advance(absl::Milliseconds(1500));
  registry_->PartAnswered(*slot, Took(absl::Milliseconds(3)));
  clock_.Advance(absl::Milliseconds(100));
  v1::HeartbeatRequest beat = BeatOf(JoinOf(1));
  beat.mutable_load()->mutable_counters()->set_queue_depth(2);
  ASSERT_TRUE(registry_->Heartbeat(beat).ok());
  Beat(JoinOf(2));
  const DrainFacts facts = registry_->drain_facts(*slot);
  EXPECT_EQ(facts.name, "127.0.0.1:7001");
  EXPECT_TRUE(facts.was_heard);
  EXPECT_TRUE(facts.is_there);
  EXPECT_TRUE(facts.is_draining);
  EXPECT_EQ(facts.quiet, absl::Milliseconds(100));
  EXPECT_EQ(facts.heartbeat, absl::Seconds(1));
  EXPECT_EQ(facts.requests_here, 2u);
  EXPECT_EQ(facts.slices_only_here, 0);
  Pass(absl::Seconds(6));
  EXPECT_FALSE(registry_->drain_facts(*slot).is_there);
}

}  // namespace
}  // namespace deltafin::testing
