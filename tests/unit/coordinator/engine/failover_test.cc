#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "coordinator/engine/expert_dispatcher.h"
#include "tests/unit/coordinator/engine/cluster_fixture.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using testing::Cluster;
using testing::ClusterOptions;
using testing::FakeExpertNode;
using testing::FakeNodeOptions;
using ::testing::HasSubstr;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::OnLoopback;
using testing::ReplyFate;
using testing::TokenRecorder;

// Each node in turn does this with all its replies of a layer, once or always.
// Returns how many parts others did.
int64_t ExpectOthersStandIn(ReplyFate fate, bool always, int prompt_length) {
  int64_t parts_lost = 0;
  for (int failing = 0; failing < 3; ++failing) {
    for (int layer = 1; layer <= 3; ++layer) {
      std::atomic<bool> failed = false;
      ClusterOptions options;
      options.nodes.resize(3);
      options.nodes[failing].on_reply = [&, layer](const auto& request, auto*) {
        if (request.layer() != static_cast<uint32_t>(layer)) {
          return ReplyFate::kSend;
        }
        return always || !failed.exchange(true) ? fate : ReplyFate::kSend;
      };
      options.random_placement_seed = 5;  // nobody is left out as slow
      options.change = [](DispatcherOptions* dispatch) {
        dispatch->exchange.stall_after = absl::Milliseconds(20);
      };
      Cluster cluster(3, options);
      const GenerationRequest request =
          MakeRequest(std::vector<int32_t>(prompt_length, 5), 3);
      std::vector<int32_t> ids;
      const absl::Status status = cluster.Run(request, &ids).status;
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(ids, IdsAlone(request));
      parts_lost += cluster.dispatcher->stats().nodes[failing].work.parts_lost;
    }
  }
  return parts_lost;
}

TEST(FailoverTest, OthersStandInForABrokenStream) {
  EXPECT_GT(ExpectOthersStandIn(ReplyFate::kBreakStream, /*always=*/false, 2),
            0);
  EXPECT_GT(ExpectOthersStandIn(ReplyFate::kBreakStream, /*always=*/true, 2),
            0);
  EXPECT_GT(ExpectOthersStandIn(ReplyFate::kBreakStream, /*always=*/false, 300),
            0);
}

TEST(FailoverTest, OthersStandInForASilentNode) {
  EXPECT_GT(ExpectOthersStandIn(ReplyFate::kForget, /*always=*/true, 1), 0);
}

TEST(FailoverTest, OthersStandInWhereANodeRefuses) {
  ClusterOptions options;
  options.nodes.resize(3);
  options.nodes[1].on_reply = [](const auto&, v1::LayerReply* reply) {
    reply->clear_sums();
    reply->clear_token();
    reply->set_status_code(5);  // NOT_FOUND
    reply->set_status_message("expert 7 is gone");
    return ReplyFate::kSend;
  };
  Cluster cluster(3, options);
  const GenerationRequest request = MakeRequest({1, 2}, 3);
  std::vector<int32_t> ids;
  EXPECT_TRUE(cluster.Run(request, &ids).status.ok());
  EXPECT_EQ(ids, IdsAlone(request));
}

FakeNodeOptions Refusing(uint32_t code, const std::string& message) {
  FakeNodeOptions node;
  node.on_reply = [=](const auto&, v1::LayerReply* reply) {
    reply->clear_sums();
    reply->clear_token();
    reply->set_status_code(code);
    reply->set_status_message(message);
    return ReplyFate::kSend;
  };
  return node;
}

// The nodes from `first_empty` on hold nothing and fetch what they lack.
std::function<void(int, Member*)> EmptyFrom(int first_empty) {
  const ExpertShape shape = testing::FakeSpine().spec().expert_shape();
  const auto nothing =
      std::make_shared<const SliceSet>(0, 64, 64, shape.num_slices());
  return [=](int node, Member* member) {
    if (node < first_empty) return;
    member->holdings = nothing;
    member->fetches = FetchReach::kMembers;
  };
}

TEST(FailoverTest, WhoHoldsNothingWorksOnlyWhereNobodyElseCan) {
  ClusterOptions options;
  options.describe = EmptyFrom(1);
  Cluster cluster(2, options);
  const GenerationRequest request = MakeRequest({1, 2}, 3);
  std::vector<int32_t> ids;
  EXPECT_TRUE(cluster.Run(request, &ids).status.ok());
  EXPECT_EQ(ids, IdsAlone(request));
  EXPECT_EQ(cluster.nodes[1]->counters().slices_computed(), 0);
}

TEST(FailoverTest, WhoCanFetchStandsInForTheLastHolder) {
  ClusterOptions options;
  options.nodes = {Refusing(15, "expert 7: its drive fails")};
  options.describe = EmptyFrom(1);
  Cluster cluster(2, options);
  const GenerationRequest request = MakeRequest({1, 2}, 3);
  std::vector<int32_t> ids;
  const absl::Status status = cluster.Run(request, &ids).status;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ids, IdsAlone(request));
  EXPECT_GT(cluster.nodes[1]->counters().slices_computed(), 0);
}

TEST(FailoverTest, WhereNobodyCanFetchNodeLayerAndExpertAreNamed) {
  ClusterOptions options;
  options.nodes = {Refusing(15, "its drive fails"),
                   Refusing(9, "nobody gives slice 3")};
  options.describe = EmptyFrom(1);
  const absl::Time begun = absl::Now();
  const absl::Status status =
      Cluster(2, options).Run(MakeRequest({1, 2}, 3)).status;
  EXPECT_LT(absl::Now() - begun, absl::Seconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("layer 1 expert"), HasSubstr("node node-1"),
                    HasSubstr("nobody gives slice 3")));
}

// A late answer of a node whose work others did is dropped, and the node is
// used again.
TEST(FailoverTest, AStalledNodeThatWakesUpIsUsedAgain) {
  ClusterOptions options = OnLoopback();
  options.random_placement_seed = 5;  // nobody is left out as slow
  options.nodes.resize(2);
  options.nodes[1].on_reply = [](const auto& request, auto*) {
    if (request.step() == 1 && request.layer() == 2) {
      absl::SleepFor(absl::Milliseconds(200));
    }
    return ReplyFate::kSend;
  };
  options.change = [](DispatcherOptions* dispatch) {
    dispatch->exchange.stall_after = absl::Milliseconds(20);
  };
  Cluster cluster(2, options);
  const GenerationRequest request = MakeRequest({1}, 100);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  NodeWork work;
  do {
    std::vector<int32_t> ids;
    ASSERT_TRUE(cluster.Run(request, &ids).status.ok());
    EXPECT_EQ(ids, IdsAlone(request));
    work = cluster.dispatcher->stats().nodes[1].work;
  } while (work.replies <= 2 && absl::Now() < deadline);
  EXPECT_GT(work.parts_lost, 0);
  EXPECT_GT(work.replies_dropped, 0);
  EXPECT_GT(work.replies, 2);
}

// Those who were done long ago and get the work of a silent node are not
// believed to be silent since then.
TEST(FailoverTest, WhoStandsInIsGivenItsTime) {
  ClusterOptions options = OnLoopback();
  options.random_placement_seed = 5;  // nobody is left out as slow
  options.nodes.resize(3);
  for (FakeNodeOptions& node : options.nodes) {
    auto num_replies = std::make_shared<std::atomic<int>>(0);
    node.on_reply = [num_replies](const auto&, auto*) {
      if (num_replies->fetch_add(1) > 0) {
        absl::SleepFor(absl::Milliseconds(100));
      }
      return ReplyFate::kSend;
    };
  }
  options.nodes[2].on_reply = [](const auto&, auto*) {
    return ReplyFate::kForget;
  };
  options.change = [](DispatcherOptions* dispatch) {
    dispatch->exchange.stall_after = absl::Seconds(1);
  };
  Cluster cluster(3, options);
  const GenerationRequest request = MakeRequest({1, 2, 3, 4, 5, 6, 7, 8}, 1);
  std::vector<int32_t> ids;
  ASSERT_TRUE(cluster.Run(request, &ids).status.ok());
  EXPECT_EQ(ids, IdsAlone(request));
  const DispatcherStats stats = cluster.dispatcher->stats();
  EXPECT_GT(stats.nodes[2].work.parts_lost, 0);
  EXPECT_EQ(stats.nodes[0].work.parts_lost, 0);
  EXPECT_EQ(stats.nodes[1].work.parts_lost, 0);
}

TEST(FailoverTest, NodeThatDiedIsUsedAgainWhenItReturns) {
  Cluster cluster(2, OnLoopback());
  const GenerationRequest request = MakeRequest({1, 2}, 2);
  ASSERT_TRUE(cluster.Run(request).status.ok());
  FakeNodeOptions same;
  same.shape = cluster.spine.spec().expert_shape();
  same.port = cluster.nodes[1]->port();
  cluster.nodes[1]->Stop();
  std::vector<int32_t> ids;
  ASSERT_TRUE(cluster.Run(request, &ids).status.ok());
  EXPECT_EQ(ids, IdsAlone(request));
  cluster.nodes[1] = std::make_unique<FakeExpertNode>(same);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (cluster.nodes[1]->counters().slices_computed() == 0 &&
         absl::Now() < deadline) {
    ASSERT_TRUE(cluster.Run(request).status.ok());
  }
  EXPECT_GT(cluster.nodes[1]->counters().slices_computed(), 0);
}

TEST(FailoverTest, AnIdleEngineConnectsANodeThatReturns) {
  Cluster cluster(2, OnLoopback());
  ASSERT_TRUE(cluster.Run(MakeRequest({1, 2}, 2)).status.ok());
  FakeNodeOptions same;
  same.shape = cluster.spine.spec().expert_shape();
  same.port = cluster.nodes[1]->port();
  cluster.nodes[1]->Stop();
  cluster.nodes[1] = std::make_unique<FakeExpertNode>(same);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (cluster.nodes[1]->handshakes() == 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(cluster.nodes[1]->handshakes(), 1);
}

// The text waits for a node that comes back in time.
TEST(FailoverTest, AGenerationWaitsForItsOnlyNodeToReturn) {
  ClusterOptions options = OnLoopback();
  options.change = [](DispatcherOptions* dispatch) {
    dispatch->exchange.owner_patience = absl::Seconds(60);
  };
  Cluster cluster(1, options);
  const GenerationRequest request = MakeRequest({1, 2}, 3);
  ASSERT_TRUE(cluster.Run(request).status.ok());
  FakeNodeOptions same;
  same.shape = cluster.spine.spec().expert_shape();
  same.port = cluster.nodes[0]->port();
  cluster.nodes[0]->Stop();
  std::thread returning([&] {
    absl::SleepFor(absl::Milliseconds(300));
    cluster.nodes[0] = std::make_unique<FakeExpertNode>(same);
  });
  std::vector<int32_t> ids;
  const absl::Status status = cluster.Run(request, &ids).status;
  returning.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(ids, IdsAlone(request));
}

}  // namespace
}  // namespace deltafin
