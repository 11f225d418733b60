#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
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

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// The second of two nodes is `node`.
absl::Status ConnectWith(const FakeNodeOptions& node) {
  ClusterOptions options;
  options.nodes = {{}, node};
  Cluster cluster(2, options);
  return cluster.Connect();
}

TEST(ExpertDispatcherFailureTest, NodeOfAnotherModelIsRefusedWithBothDigests) {
  FakeNodeOptions node;
  node.manifest_digest = "other";
  const absl::Status status = ConnectWith(node);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      Message(status),
      AllOf(HasSubstr("node node-1"), HasSubstr("manifest digest"),
            HasSubstr("coordinator has digest"), HasSubstr("node has other")));
}

TEST(ExpertDispatcherFailureTest, NodeOfAnotherArithmeticIsRefused) {
  FakeNodeOptions node;
  node.numerics_version = 2;
  EXPECT_THAT(Message(ConnectWith(node)),
              AllOf(HasSubstr("node node-1"), HasSubstr("numerics version"),
                    HasSubstr("coordinator has 1"), HasSubstr("node has 2")));
  node.numerics_version = 1;
  node.wire_version = 7;
  EXPECT_THAT(Message(ConnectWith(node)),
              AllOf(HasSubstr("wire version"), HasSubstr("node has 7")));
}

TEST(ExpertDispatcherFailureTest, NodeThatRefusesIsNamedWithItsReason) {
  FakeNodeOptions node;
  node.refuse_with = 9;  // FAILED_PRECONDITION
  node.refusal = "draining";
  const absl::Status status = ConnectWith(node);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("node node-1"), HasSubstr("draining")));
}

TEST(ExpertDispatcherFailureTest, NobodyListening) {
  Cluster cluster(1, OnLoopback());
  cluster.nodes[0]->Stop();
  const absl::Status status = cluster.Connect();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("node node-0"));
}

TEST(ExpertDispatcherFailureTest, NoNodesAtAll) {
  Cluster cluster(0);
  EXPECT_EQ(
      cluster.Run(MakeRequest({1}, 1)).status,
      absl::UnavailableError("layer 1: the cluster has no node; start one"));
}

// Each way in which a reply can be wrong.
const std::vector<std::function<void(v1::LayerReply*)>>& Garbage() {
  static const auto& garbage =
      *new std::vector<std::function<void(v1::LayerReply*)>>{
          [](auto* reply) { reply->mutable_sums()->pop_back(); },
          [](auto* reply) { reply->clear_sums(); },
          [](auto* reply) { reply->add_token(99); },
          [](auto* reply) { reply->set_token(0, 5); },
          [](auto* reply) { reply->clear_token(); },
          [](auto* reply) { reply->set_part(4000000000u); },
          [](auto* reply) { reply->set_layer(77); },
          [](auto* reply) { reply->set_step(1u << 30); },
          [](auto* reply) { reply->set_epoch(~uint64_t{0}); },
          [](auto* reply) { reply->set_slices_computed(0); },
          [](auto* reply) { reply->set_bytes_read(~uint64_t{0}); },
          [](auto* reply) { reply->set_status_code(12345); },
          [](auto* reply) {
            reply->set_status_code(11);
            reply->set_error_expert(1u << 31);
          },
          [](auto* reply) {
            for (char& c : *reply->mutable_sums()) c = '\x7f';
          }};
  return garbage;
}

// Node `garbling` of `num_nodes` answers layer 2 with each kind of garbage in
// turn.
void WithGarbage(int num_nodes, int garbling,
                 const std::function<void(Cluster&, int kind)>& run) {
  std::atomic<int> kind = -1;
  ClusterOptions options;
  options.nodes.resize(num_nodes);
  options.nodes[garbling].on_reply = [&kind](const auto& request, auto* reply) {
    if (kind >= 0 && request.layer() == 2) Garbage()[kind](reply);
    return ReplyFate::kSend;
  };
  Cluster cluster(num_nodes, options);
  ASSERT_TRUE(cluster.Connect().ok());
  for (kind = 0; kind < static_cast<int>(Garbage().size()); ++kind) {
    run(cluster, kind);
  }
  kind = -1;
  run(cluster, -1);
}

TEST(ExpertDispatcherFailureTest, GarbageOfTheOnlyNodeIsNamed) {
  const GenerationRequest request = MakeRequest({1, 2}, 2);
  WithGarbage(1, 0, [&request](Cluster& cluster, int kind) {
    std::vector<int32_t> ids;
    const absl::Status status = cluster.Run(request, &ids).status;
    if (kind < 0) {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(ids, IdsAlone(request));
      return;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << kind;
    EXPECT_THAT(Message(status), HasSubstr("layer 2: node node-0")) << kind;
  });
}

TEST(ExpertDispatcherFailureTest, GarbageOfOneNodeIsDoneByTheOther) {
  const GenerationRequest request = MakeRequest({1, 2}, 2);
  WithGarbage(2, 1, [&request](Cluster& cluster, int kind) {
    std::vector<int32_t> ids;
    const absl::Status status = cluster.Run(request, &ids).status;
    EXPECT_TRUE(status.ok()) << kind << ": " << status;
    EXPECT_EQ(ids, IdsAlone(request)) << kind;
  });
}

TEST(ExpertDispatcherFailureTest, LowestErrorOverAllNodesIsReported) {
  // Three slices over three nodes: each node has all three experts of a token.
  // The last node names the lowest one, and answers last.
  ClusterOptions options;
  options.nodes.resize(3);
  for (int node = 0; node < 3; ++node) {
    options.nodes[node].delay = absl::Milliseconds(5 * node);
    options.nodes[node].on_reply = [node](const auto& request, auto* reply) {
      reply->set_status_code(11);
      reply->set_error_token(0);
      reply->set_error_expert(request.expert(2 - node));
      reply->set_status_message("overflow");
      return ReplyFate::kSend;
    };
  }
  Cluster cluster(3, options);
  EXPECT_EQ(cluster.Run(MakeRequest({1}, 1)).status,
            absl::OutOfRangeError("layer 1: node node-2: overflow"));
}

TEST(ExpertDispatcherFailureTest, OnlyNodeThatKeepsBreakingIsNamed) {
  std::atomic<bool> broken = true;
  ClusterOptions options;
  options.nodes.resize(1);
  options.nodes[0].on_reply = [&broken](const auto& request, auto*) {
    return broken && request.layer() == 3 ? ReplyFate::kBreakStream
                                          : ReplyFate::kSend;
  };
  options.change = [](DispatcherOptions* dispatch) {
    dispatch->layer_timeout = absl::Milliseconds(500);
  };
  Cluster cluster(1, options);
  const GenerationRequest request = MakeRequest({1, 2}, 2);
  const absl::Status status = cluster.Run(request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("layer 3"), HasSubstr("node-0")));
  broken = false;
  EXPECT_TRUE(cluster.Run(request).status.ok());
}

TEST(ExpertDispatcherFailureTest, TheLastNodesRefusalIsPassedOn) {
  ClusterOptions options;
  options.nodes.resize(2);
  for (FakeNodeOptions& node : options.nodes) {
    node.on_reply = [](const auto&, v1::LayerReply* reply) {
      reply->set_status_code(15);  // DATA_LOSS
      reply->set_status_message("expert 7: shard 3 cannot be read");
      return ReplyFate::kSend;
    };
  }
  const absl::Status status =
      Cluster(2, options).Run(MakeRequest({1}, 1)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("layer 1: node node-"),
                    HasSubstr("expert 7: shard 3 cannot be read")));
}

TEST(ExpertDispatcherFailureTest, ADeadClusterEndsTheRequestAndIsNamed) {
  Cluster cluster(2, OnLoopback());
  const GenerationRequest request = MakeRequest({1, 2}, 2);
  ASSERT_TRUE(cluster.Run(request).status.ok());
  for (auto& node : cluster.nodes) node->Stop();
  const absl::Status status = cluster.Run(request).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("layer 1 expert"), HasSubstr("no node is left"),
                    HasSubstr("node node-")));
}

TEST(ExpertDispatcherFailureTest, SilentNodeRunsIntoTheLayersDeadline) {
  ClusterOptions options;
  options.nodes.resize(1);
  options.nodes[0].on_reply = [](const auto&, auto*) {
    return ReplyFate::kForget;
  };
  options.change = [](DispatcherOptions* dispatch) {
    dispatch->layer_timeout = absl::Milliseconds(50);
  };
  Cluster cluster(1, options);
  // One that the engine thread waits for, one of the exchange thread.
  for (const int length : {1, 300}) {
    const absl::Status status =
        cluster.Run(MakeRequest(std::vector<int32_t>(length, 5), 1)).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(Message(status), AllOf(HasSubstr("layer 1: no answer in time"),
                                       HasSubstr("node-0")));
  }
}

TEST(ExpertDispatcherFailureTest, CancelTellsTheNodesAndLateRepliesAreDropped) {
  for (const int length : {1, 300}) {
    std::atomic<bool> asked = false;
    std::atomic<bool> silent = true;
    ClusterOptions options;
    options.nodes.resize(2);
    options.nodes[1].on_reply = [&](const auto&, auto*) {
      asked = true;
      return silent ? ReplyFate::kWithhold : ReplyFate::kSend;
    };
    Cluster cluster(2, options);
    ASSERT_TRUE(cluster.Connect().ok());
    const GenerationRequest request =
        MakeRequest(std::vector<int32_t>(length, 5), 2);
    TokenRecorder recorder;
    const auto id = cluster.scheduler->Submit(request, &recorder);
    while (!asked) std::this_thread::yield();
    cluster.scheduler->Cancel(*id);
    EXPECT_EQ(recorder.AwaitFinish().status.code(),
              absl::StatusCode::kCancelled);
    silent = false;
    std::vector<int32_t> ids;
    EXPECT_TRUE(cluster.Run(request, &ids).status.ok());
    EXPECT_EQ(ids, IdsAlone(request));
    EXPECT_EQ(cluster.nodes[0]->steps_cancelled(), 1);
    EXPECT_EQ(cluster.nodes[1]->steps_cancelled(), 1);
  }
}

TEST(ExpertDispatcherFailureTest, DispatcherLeavesWhileRepliesAreOwed) {
  ClusterOptions options;
  options.nodes.resize(1);
  options.nodes[0].on_reply = [](const auto&, auto*) {
    return ReplyFate::kForget;
  };
  Cluster cluster(1, options);
  ASSERT_TRUE(cluster.Connect().ok());
  TokenRecorder recorder;
  ASSERT_TRUE(cluster.scheduler->Submit(MakeRequest({1}, 1), &recorder).ok());
  cluster.scheduler.reset();
  EXPECT_EQ(recorder.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace deltafin
