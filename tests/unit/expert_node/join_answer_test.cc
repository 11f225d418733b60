#include "expert_node/join_answer.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(JoinAnswerTest, KeepsAPaceWhateverTheCoordinatorSays) {
  v1::JoinReply reply;
  EXPECT_EQ(ReadJoinReply(reply).heartbeat, absl::Milliseconds(1));
  reply.set_heartbeat_ms(250);
  EXPECT_EQ(ReadJoinReply(reply).heartbeat, absl::Milliseconds(250));
  reply.set_heartbeat_ms(UINT32_MAX);
  EXPECT_EQ(ReadJoinReply(reply).heartbeat, absl::Minutes(1));
}

TEST(JoinAnswerTest, ShowsTheBeginningOfTheIdOnOneLine) {
  v1::JoinReply reply;
  reply.set_coordinator_id("01\n\x1b[2J89ab");
  EXPECT_EQ(ReadJoinReply(reply).coordinator, "01??[2J8");
}

}  // namespace
}  // namespace deltafin
