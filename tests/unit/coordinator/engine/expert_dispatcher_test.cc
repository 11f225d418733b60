#include "coordinator/engine/expert_dispatcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "common/base/mutex.h"
#include "tests/unit/coordinator/engine/cluster_fixture.h"

namespace deltafin {
namespace {

using testing::Cluster;
using testing::ClusterOptions;
using testing::FakeNodeOptions;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::OnLoopback;
using testing::ReplyFate;

// A prompt of 300 tokens makes three messages per node and layer, so that the
// exchange thread moves them; each further token makes one.
GenerationRequest LongRequest() {
  std::vector<int32_t> prompt;
  for (int i = 0; i < 300; ++i) prompt.push_back(i * 7 % 61);
  return MakeRequest(prompt, 4);
}

// Triples of a run of LongRequest: 303 tokens fed, 3 MoE layers, top-3, three
// slices.
constexpr int64_t kLongRequestSlices = int64_t{303} * 3 * 3 * 3;

void ExpectSameIdsAndAllWorked(Cluster& cluster) {
  std::vector<int32_t> ids;
  const RequestResult result = cluster.Run(LongRequest(), &ids);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(ids, IdsAlone(LongRequest()));
  const DispatcherStats stats = cluster.dispatcher->stats();
  EXPECT_EQ(stats.layers, 4 * 3);
  int64_t slices = 0;
  for (size_t i = 0; i < stats.nodes.size(); ++i) {
    EXPECT_GT(stats.nodes[i].work.slices_computed, 0) << "node " << i;
    EXPECT_EQ(static_cast<uint64_t>(stats.nodes[i].work.slices_computed),
              cluster.nodes[i]->counters().slices_computed());
    slices += stats.nodes[i].work.slices_computed;
  }
  EXPECT_EQ(slices, kLongRequestSlices);
}

TEST(ExpertDispatcherTest, NumberOfNodesDoesNotShowInTheIds) {
  for (const int num_nodes : {1, 2, 3, 5, 8}) {
    Cluster cluster(num_nodes);
    ExpectSameIdsAndAllWorked(cluster);
  }
}

TEST(ExpertDispatcherTest, WorksOverLoopback) {
  Cluster cluster(4, OnLoopback());
  ExpectSameIdsAndAllWorked(cluster);
}

TEST(ExpertDispatcherTest, PlacementDoesNotShowInTheIds) {
  for (const uint64_t seed : {1, 2, 3}) {
    ClusterOptions options;
    options.random_placement_seed = seed;
    Cluster cluster(3, options);
    ExpectSameIdsAndAllWorked(cluster);
  }
}

TEST(ExpertDispatcherTest, ReplyOrderAndDuplicatesDoNotShowInTheIds) {
  ClusterOptions options;
  options.nodes.resize(3);
  // Of the three parts of a long layer the first is held back.
  options.nodes[0].on_reply = [](const v1::LayerRequest& request, auto*) {
    return request.part() == 0 && request.num_tokens() == 128
               ? ReplyFate::kWithhold
               : ReplyFate::kSend;
  };
  options.nodes[1].on_reply = [](const auto&, auto*) {
    return ReplyFate::kSendTwice;
  };
  options.nodes[2].delay = absl::Milliseconds(3);
  Cluster cluster(3, options);
  ExpectSameIdsAndAllWorked(cluster);
  EXPECT_GT(cluster.dispatcher->stats().nodes[1].work.replies_dropped, 0);
}

TEST(ExpertDispatcherTest, ReportsWhatTheNodesSaid) {
  ClusterOptions options;
  options.nodes.resize(2);
  options.nodes[1].on_reply = [](const auto&, v1::LayerReply* reply) {
    reply->set_bytes_read(100);
    reply->set_cache_hits(2);
    reply->set_cache_misses(1);
    return ReplyFate::kSend;
  };
  Cluster cluster(2, options);
  ASSERT_TRUE(cluster.Run(MakeRequest({1}, 1)).status.ok());
  const DispatcherStats stats = cluster.dispatcher->stats();
  EXPECT_EQ(stats.nodes[0].name, "node-0");
  EXPECT_EQ(stats.nodes[0].info.kernel(), "fake");
  EXPECT_EQ(stats.nodes[0].work.bytes_read, 0);
  // How many it had depends on how fast it was.
  const int64_t replies = stats.nodes[1].work.replies;
  EXPECT_GE(replies, 1);
  EXPECT_LE(replies, 3);
  EXPECT_EQ(stats.nodes[1].work.bytes_read, 100 * replies);
  EXPECT_EQ(stats.nodes[1].work.cache_hits, 2 * replies);
  EXPECT_EQ(stats.nodes[1].work.cache_misses, replies);
  const ForwardStats forward = cluster.scheduler->stats().forward;
  EXPECT_GT(forward.experts_compute, 0);
  EXPECT_GT(forward.network, 0);
}

}  // namespace
}  // namespace deltafin
