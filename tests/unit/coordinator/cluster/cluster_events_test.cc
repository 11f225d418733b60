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

TEST_F(ClusterEventsTest, AreBounded) {
  ClusterEvents events;
  for (size_t i = 0; i < ClusterEvents::kMaxEvents + 5; ++i) events.Add({});
  ASSERT_THAT(events.events(), SizeIs(ClusterEvents::kMaxEvents));
  EXPECT_EQ(events.events().front().number, 6u);
  EXPECT_EQ(events.events().back().number, ClusterEvents::kMaxEvents + 5);
}

}  // namespace
}  // namespace deltafin::testing
