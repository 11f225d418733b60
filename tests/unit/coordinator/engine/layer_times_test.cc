#include "coordinator/engine/layer_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/coordinator/engine/cluster_fixture.h"

namespace deltafin {
namespace {

using testing::Cluster;
using testing::ClusterOptions;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Gt;
using ::testing::IsEmpty;
using testing::MakeRequest;
using ::testing::SizeIs;

ModelExtent ThreeLayers() {
  ModelExtent extent;
  extent.first_layer = 1;
  extent.num_layers = 3;
  extent.num_experts = 8;
  return extent;
}

NodeWork Answered(int milliseconds) {
  NodeWork work;
  work.answered_after = absl::Milliseconds(milliseconds);
  return work;
}

// One layer in which two nodes work.
void Layer(uint64_t step, int layer, int first, int second, LayerTimes* times) {
  times->Begin(step, layer);
  times->Add(0, "a", Answered(first));
  times->Add(1, "b", Answered(second));
}

TEST(LayerTimesTest, SaysWhoTookHowLong) {
  LayerTimes times(ThreeLayers());
  Layer(1, 1, 5, 0, &times);
  Layer(1, 2, 6, 7, &times);
  const LayerTimesSnapshot seen = times.Snapshot();
  EXPECT_EQ(seen.step, 1u);
  EXPECT_EQ(seen.layer, 2);
  ASSERT_THAT(seen.nodes, SizeIs(2));
  EXPECT_EQ(seen.nodes[0].name, "a");
  EXPECT_THAT(seen.nodes[0].milliseconds, ElementsAre(5, 6, 0));
  EXPECT_THAT(seen.nodes[1].milliseconds, ElementsAre(0, 7, 0));
}

TEST(LayerTimesTest, KeepsTheStepBeforeWhereTheStepHasNotComeYet) {
  LayerTimes times(ThreeLayers());
  for (const int layer : {1, 2, 3}) Layer(1, layer, 10 + layer, 1, &times);
  Layer(2, 1, 21, 1, &times);
  times.Begin(2, 2);
  const LayerTimesSnapshot seen = times.Snapshot();
  // Layer 2 is under way: what it took before is over.
  EXPECT_THAT(seen.nodes[0].milliseconds, ElementsAre(21, 0, 13));
}

TEST(LayerTimesTest, ForgetsNodesThatHadNoPartInTheLastSteps) {
  LayerTimes times(ThreeLayers());
  for (const int layer : {1, 2, 3}) Layer(1, layer, 1, 1, &times);
  for (const int layer : {1, 2, 3}) Layer(2, layer, 1, 0, &times);
  EXPECT_THAT(times.Snapshot().nodes[1].milliseconds, Each(0));
}

TEST(LayerTimesTest, MarksWorkThatWasGivenToOthers) {
  LayerTimes times(ThreeLayers());
  times.Begin(1, 3);
  NodeWork work = Answered(9);
  work.given_up_after = absl::Milliseconds(4);
  times.Add(0, "a", work);
  EXPECT_THAT(times.Snapshot().nodes[0].milliseconds,
              ElementsAre(0, 0, LayerTimesSnapshot::kGivenUp));
}

TEST(LayerTimesTest, ASlotThatAnotherNodeTookStartsAnew) {
  LayerTimes times(ThreeLayers());
  Layer(1, 1, 5, 5, &times);
  times.Begin(1, 2);
  times.Add(0, "c", Answered(3));
  const LayerTimesSnapshot seen = times.Snapshot();
  EXPECT_EQ(seen.nodes[0].name, "c");
  EXPECT_THAT(seen.nodes[0].milliseconds, ElementsAre(0, 3, 0));
}

TEST(LayerTimesTest, LayersOutsideTheModelAreIgnored) {
  LayerTimes times{ModelExtent()};
  Layer(1, 0, 5, 5, &times);
  EXPECT_THAT(times.Snapshot().nodes, IsEmpty());
}

TEST(LayerTimesTest, TheDispatcherTellsOfEveryNodeAndCountsEveryChoice) {
  ClusterOptions options;
  ModelExtent extent;
  options.change = [&extent](DispatcherOptions* dispatch) {
    const testing::FakeSpine spine;
    extent.first_layer = spine.spec().first_k_dense_replace;
    extent.num_layers = spine.spec().num_moe_layers();
    extent.num_experts = spine.spec().num_experts;
    extent.top_k = spine.spec().num_experts_per_token;
    dispatch->extent = extent;
  };
  Cluster cluster(2, options);
  ASSERT_TRUE(cluster.Run(MakeRequest({1, 2, 3}, 2)).status.ok());
  float choices = 0;
  for (const float count : cluster.dispatcher->heat().Snapshot()) {
    choices += count;
  }
  // Four tokens in two steps; the first has faded a little.
  const auto all = static_cast<float>(4 * extent.num_layers * extent.top_k);
  EXPECT_LE(choices, all);
  EXPECT_GT(choices, 0.95F * all);
  // Until it is connected the other does its part.
  LayerTimesSnapshot seen;
  for (int run = 0; run < 200; ++run) {
    seen = cluster.dispatcher->layer_times().Snapshot();
    ASSERT_THAT(seen.nodes, SizeIs(2));
    if (std::ranges::min(seen.nodes[1].milliseconds) > 0) break;
    ASSERT_TRUE(cluster.Run(MakeRequest({1, 2, 3}, 2)).status.ok());
  }
  EXPECT_EQ(seen.nodes[1].name, "node-1");
  EXPECT_THAT(seen.nodes[1].milliseconds, SizeIs(extent.num_layers));
  EXPECT_THAT(seen.nodes[1].milliseconds, Each(Gt(0)));
}

}  // namespace
}  // namespace deltafin
