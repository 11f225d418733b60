#include "coordinator/engine/expert_prediction.h"

#include <gtest/gtest.h>

#include <set>

namespace deltafin {
namespace {

// Sixteen of 896 experts of twelve slices of 1 MB.
RouteModel Routes() { return {1, 92, 896, 16, 1'000'000}; }

// Members hold what the cut gives them.
Placement EvenPlacement(int num_nodes, CutKind cut = CutKind::kProportional) {
  std::vector<Member> members(num_nodes);
  for (Member& member : members) {
    member.state = MemberState::kServing;
    member.weight = 1;
  }
  PlacementOptions options;
  options.cut = cut;
  options.num_slices = 12;
  const Placement plan(1, options, members);
  std::vector<SliceSet> held(num_nodes, SliceSet(1, 92, 896, 12));
  std::vector<NodeRun> runs;
  for (int layer = 1; layer <= 92; ++layer) {
    for (int expert = 0; expert < 896; ++expert) {
      plan.Cut({layer, expert}, 0, &runs);
      for (const NodeRun& run : runs) {
        held[run.node].Add({layer, expert}, run.slices);
      }
    }
  }
  for (int i = 0; i < num_nodes; ++i) {
    members[i].holdings = std::make_shared<SliceSet>(std::move(held[i]));
  }
  return Placement(1, options, std::move(members));
}

ExpertPrediction Predict(const Placement& placement, const NodeSpeed& speed) {
  return PredictExperts(placement, Routes(),
                        std::vector<NodeSpeed>(placement.num_slots(), speed),
                        300, 1);
}

TEST(ExpertPredictionTest, OneNodeReadsAllAndComputesTheLastSliceAfterwards) {
  const NodeSpeed speed = {0.001, 1e9, 10e9, 0};
  const ExpertPrediction prediction = Predict(EvenPlacement(1), speed);
  EXPECT_NEAR(prediction.seconds_per_layer, 0.001 + 192e-3 + 1e-4, 1e-9);
  EXPECT_DOUBLE_EQ(prediction.balance, 1);
  EXPECT_DOUBLE_EQ(prediction.share[0], 1);
}

TEST(ExpertPredictionTest, FourNodesShareExactly) {
  const NodeSpeed speed = {0.001, 1e9, 10e9, 0};
  const ExpertPrediction prediction = Predict(EvenPlacement(4), speed);
  EXPECT_NEAR(prediction.seconds_per_layer, 0.001 + 48e-3 + 1e-4, 1e-9);
  EXPECT_DOUBLE_EQ(prediction.balance, 1);
}

TEST(ExpertPredictionTest, WholeExpertsWaitForTheBusiestNode) {
  const NodeSpeed speed = {0, 1e9, 10e9, 0};
  const ExpertPrediction prediction =
      Predict(EvenPlacement(4, CutKind::kWholeExperts), speed);
  EXPECT_LT(prediction.balance, 0.7);
  EXPECT_GT(prediction.seconds_per_layer, 48e-3 / 0.7);
}

TEST(ExpertPredictionTest, WhatIsInMemoryCostsTheKernelAlone) {
  const ExpertPrediction prediction =
      Predict(EvenPlacement(1), {0, 1e9, 10e9, 1});
  EXPECT_NEAR(prediction.seconds_per_layer, 192e6 / 10e9, 1e-9);
  const ExpertPrediction half = Predict(EvenPlacement(1), {0, 1e9, 10e9, 0.5});
  EXPECT_NEAR(half.seconds_per_layer, 96e-3, 2e-3);
}

TEST(ExpertPredictionTest, DrawsDifferentExpertsInOrder) {
  uint64_t state = 3;
  std::vector<int32_t> experts;
  for (int i = 0; i < 100; ++i) {
    DrawExperts(Routes(), &state, &experts);
    EXPECT_EQ(std::set<int32_t>(experts.begin(), experts.end()).size(), 16u);
    EXPECT_TRUE(std::is_sorted(experts.begin(), experts.end()));
    EXPECT_GE(experts.front(), 0);
    EXPECT_LT(experts.back(), 896);
  }
}

}  // namespace
}  // namespace deltafin
