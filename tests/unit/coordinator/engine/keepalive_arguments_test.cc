// The bound within which a node that is gone is noticed reaches gRPC.

#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "coordinator/engine/expert_client.h"

namespace deltafin {
namespace {

std::map<std::string, int> Integers(const grpc::ChannelArguments& arguments) {
  std::map<std::string, int> integers;
  const grpc_channel_args all = arguments.c_channel_args();
  for (size_t i = 0; i < all.num_args; ++i) {
    if (all.args[i].type != GRPC_ARG_INTEGER) continue;
    integers[all.args[i].key] = all.args[i].value.integer;
  }
  return integers;
}

TEST(KeepaliveTest, PingAndAnswerTogetherAreWithinTheBound) {
  for (const absl::Duration bound :
       {kLeastKeepaliveBound, kDefaultKeepaliveBound, kMostKeepaliveBound}) {
    const Keepalive keepalive = KeepaliveWithin(bound);
    EXPECT_LT(keepalive.time + keepalive.timeout, bound);
    EXPECT_GT(keepalive.time + keepalive.timeout, 0.8 * bound);
    EXPECT_GT(keepalive.time, 1.5 * absl::Milliseconds(kLeastPingIntervalMs));
  }
}

TEST(KeepaliveTest, ChannelsToNodesTakeTheBound) {
  grpc::ChannelArguments by_default;
  SetExpertChannelArguments(&by_default);
  std::map<std::string, int> integers = Integers(by_default);
  EXPECT_EQ(integers.at(GRPC_ARG_KEEPALIVE_TIME_MS), 2000);
  EXPECT_EQ(integers.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS), 2500);
  grpc::ChannelArguments given;
  SetExpertChannelArguments(&given, absl::Seconds(20));
  integers = Integers(given);
  EXPECT_EQ(integers.at(GRPC_ARG_KEEPALIVE_TIME_MS), 8000);
  EXPECT_EQ(integers.at(GRPC_ARG_KEEPALIVE_TIMEOUT_MS), 10000);
}

}  // namespace
}  // namespace deltafin
