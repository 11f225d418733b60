#include "coordinator/cluster/cluster_events.h"

#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClusterEventsTest : public RegistryTest {
 protected:
  // "from > to" of every event.
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    for (const ClusterEvent& event : registry_->events()) {
      changes.push_back(event.from + " > " + event.to);
    }
    return changes;
  }
};

TEST_F(ClusterEventsTest, TellTheLifeOfANodeThatFallsSilent) {
  EXPECT_THAT(Changes(), IsEmpty());
  Serve(JoinOf(1));
  Pass(absl::Seconds(3));
  Pass(absl::Seconds(3));
  EXPECT_THAT(Changes(), ElementsAre("gone > joining", "joining > serving",
                                     "serving > suspect", "suspect > gone"));
  const ClusterEvent suspect = registry_->events()[2];
  EXPECT_EQ(suspect.number, 3u);
  EXPECT_EQ(suspect.node, "127.0.0.1:7001");
  EXPECT_EQ(suspect.node_id, "id-1");
  EXPECT_EQ(suspect.why, "no heartbeat");
}

TEST_F(ClusterEventsTest, SayWhatANodeFailedWith) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::UnavailableError("stream ended"));
  ASSERT_THAT(registry_->events(), SizeIs(3));
  EXPECT_EQ(registry_->events()[2].to, "suspect");
  EXPECT_EQ(registry_->events()[2].why, "stream ended");
}

TEST_F(ClusterEventsTest, ANodeThatEndsItselfHasLeft) {
  Serve(JoinOf(1));
  v1::LeaveRequest leave;
  leave.set_node_id("id-1");
  leave.set_incarnation(1);
  ASSERT_TRUE(registry_->Leave(leave).ok());
  EXPECT_EQ(Changes().back(), "serving > left");
}

TEST_F(ClusterEventsTest, ANodeThatFlapsPushesNobodyOut) {
  Serve(JoinOf(1));
  Serve(JoinOf(2));
  const absl::Time begin = registry_->events().back().time;
  for (int i = 0; i < 200; ++i) {
    registry_->MemberFailed(
        SlotOf(2), absl::UnavailableError("reset " + std::to_string(i)));
    clock_.Advance(absl::Milliseconds(6));
    Serve(JoinOf(2, 2 + i));
  }
  const std::vector<ClusterEvent> events = registry_->events();
  EXPECT_LT(events.size(), 10u);
  EXPECT_EQ(events[0].node, "127.0.0.1:7001");
  EXPECT_EQ(events[1].node, "127.0.0.1:7001");
  const auto failed = std::find_if(
      events.begin(), events.end(),
      [](const ClusterEvent& event) { return event.to == "suspect"; });
  ASSERT_NE(failed, events.end());
  EXPECT_EQ(failed->times, 200u);
  EXPECT_EQ(failed->why, "reset 199");
  EXPECT_EQ(failed->since, begin);
  EXPECT_GT(failed->time, begin);
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_LT(events[i - 1].number, events[i].number);
  }
}

TEST_F(ClusterEventsTest, TheSameChangeMuchLaterIsAnotherEvent) {
  ClusterEvents events;
  ClusterEvent event;
  event.node = "a";
  event.to = "suspect";
  event.time = absl::UnixEpoch();
  events.Add(event);
  event.time += ClusterEvents::kFlapWindow;
  events.Add(event);
  EXPECT_THAT(events.events(), SizeIs(1));
  EXPECT_EQ(events.events()[0].times, 2u);
  event.time += ClusterEvents::kFlapWindow + absl::Seconds(1);
  events.Add(event);
  ASSERT_THAT(events.events(), SizeIs(2));
  EXPECT_EQ(events.events()[1].times, 1u);
}

TEST_F(ClusterEventsTest, AreBounded) {
  ClusterEvents events;
  for (size_t i = 0; i < ClusterEvents::kMaxEvents + 5; ++i) {
    ClusterEvent event;
    event.node = std::to_string(i);
    events.Add(std::move(event));
  }
  ASSERT_THAT(events.events(), SizeIs(ClusterEvents::kMaxEvents));
  EXPECT_EQ(events.events().front().number, 6u);
  EXPECT_EQ(events.events().back().number, ClusterEvents::kMaxEvents + 5);
}

}  // namespace
}  // namespace deltafin::testing
