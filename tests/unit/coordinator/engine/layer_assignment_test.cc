#include "coordinator/engine/layer_assignment.h"

#include <gtest/gtest.h>

#include <map>

namespace deltafin {
namespace {

constexpr int kNumSlices = 12;

Placement MakePlacement(const std::vector<MemberState>& states) {
  std::vector<Member> members;
  for (const MemberState state : states) {
    Member member;
    member.state = state;
    member.weight = 1;
    members.push_back(member);
  }
  PlacementOptions options;
  options.num_slices = kNumSlices;
  return Placement(1, options, std::move(members));
}

Placement Serving(int num_nodes) {
  return MakePlacement(
      std::vector<MemberState>(num_nodes, MemberState::kServing));
}

NodeFitness Known(double latency, double per_unit) {
  return {true, true, {latency, per_unit}};
}

// Sixteen experts of one token, and what a plan gives each node of them.
class LayerAssignmentTest : public ::testing::Test {
 protected:
  LayerAssignmentTest() {
    for (int expert = 0; expert < 16; ++expert) experts_.push_back(7 * expert);
  }

  void Plan(const Placement& placement, const std::vector<NodeFitness>& nodes) {
    const std::vector<float> weights(experts_.size(), 1);
    assignment_.Plan(placement, 3, {1, 16, experts_, weights, {}}, nodes);
  }

  std::map<int, int> SlicesOf() const {
    std::map<int, int> slices;
    for (const int32_t expert : experts_) {
      int next = 0;
      for (const NodeRun& run : assignment_.runs(expert)) {
        EXPECT_EQ(run.slices.first, next) << expert;
        next += run.slices.count;
        slices[run.node] += run.slices.count;
      }
      EXPECT_EQ(next, kNumSlices) << expert;
    }
    return slices;
  }

  std::vector<int32_t> experts_;
  LayerAssignment assignment_;
};

TEST_F(LayerAssignmentTest, KeepsTheCutWhereNodesAreAlike) {
  const Placement placement = Serving(4);
  const std::vector<NodeFitness> nodes(4, Known(1e-4, 1e-4));
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf(),
            (std::map<int, int>{{0, 48}, {1, 48}, {2, 48}, {3, 48}}));
  EXPECT_DOUBLE_EQ(assignment_.makespan(), 1e-4 + 48 * 1e-4);
  std::vector<NodeRun> home;
  placement.Cut({3, 7}, 0, &home);
  EXPECT_EQ(std::vector<NodeRun>(assignment_.runs(7).begin(),
                                 assignment_.runs(7).end()),
            home);
}

TEST_F(LayerAssignmentTest, SpreadsTheWorkOfAnUnfitNodeEvenly) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes(4, Known(1e-4, 1e-4));
  nodes[2].fit = false;
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf(), (std::map<int, int>{{0, 64}, {1, 64}, {3, 64}}));
}

TEST_F(LayerAssignmentTest, LeavesOutANodeThatIsFartherThanTheOthersNeed) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes(4, Known(1e-4, 1e-4));
  nodes[1] = Known(50e-3, 1e-4);
  Plan(placement, nodes);
  const auto slices = SlicesOf();
  EXPECT_EQ(slices.size(), 3u);
  for (const int node : {0, 2, 3}) EXPECT_NEAR(slices.at(node), 64, 2);
}

// A node of which nothing is known but what a message to it takes.
NodeFitness Supposed(double latency) { return {true, false, {latency, 0}}; }

TEST_F(LayerAssignmentTest, AFarNodeNeedsNoWorkToBeKnownAsFar) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes(4, Supposed(3e-4));
  nodes[1] = Supposed(100e-3);
  Plan(placement, nodes);  // of nobody else either
  EXPECT_EQ(SlicesOf().count(1), 0u);
  for (const int near : {0, 2, 3}) nodes[near] = Known(3e-4, 1e-4);
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf().count(1), 0u);
  // Where the others take long, its help is worth the way.
  for (const int near : {0, 2, 3}) nodes[near] = Known(3e-4, 10e-3);
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf().at(1), 48);
}

// Otherwise bytes would be read, and kept in memory, by several nodes.
TEST_F(LayerAssignmentTest, TheWorkOfAFarNodeHasOneHomeForEachExpert) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes(4, Known(5e-4, 1e-4));
  nodes[1] = Known(100e-3, 1e-4);
  Plan(placement, nodes);
  const auto all = SlicesOf();
  EXPECT_EQ(all.count(1), 0u);
  std::map<int32_t, std::vector<NodeRun>> runs;
  for (const int32_t expert : experts_) {
    const auto of = assignment_.runs(expert);
    runs[expert].assign(of.begin(), of.end());
  }
  // Other experts beside it and other latencies change nothing.
  const std::vector<int32_t> some(experts_.begin() + 5, experts_.end());
  const std::vector<float> weights(some.size(), 1);
  nodes[2] = Known(7e-4, 1e-4);
  const int num_some = static_cast<int>(some.size());
  assignment_.Plan(placement, 3, {1, num_some, some, weights, {}}, nodes);
  for (const int32_t expert : some) {
    const auto of = assignment_.runs(expert);
    EXPECT_EQ(std::vector<NodeRun>(of.begin(), of.end()), runs[expert])
        << expert;
  }
}

TEST_F(LayerAssignmentTest, AllButOneNodeMayBeFar) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes = {Known(90e-3, 1e-4), Known(80e-3, 1e-4),
                                    Known(1e-3, 1e-4), Known(85e-3, 1e-4)};
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf(), (std::map<int, int>{{2, 16 * kNumSlices}}));
}

TEST_F(LayerAssignmentTest, TakesWorkFromANodeThatBecameSlow) {
  const Placement placement = Serving(2);
  const std::vector<NodeFitness> nodes = {Known(0, 1e-4), Known(0, 3e-4)};
  Plan(placement, nodes);
  EXPECT_NEAR(SlicesOf().at(0), 144, 3);
  EXPECT_LE(assignment_.makespan(), 1.03 * 144e-4);
}

TEST_F(LayerAssignmentTest, DoesNotMoveWorkForLittle) {
  const Placement placement = Serving(4);
  std::vector<NodeFitness> nodes(4, Known(1e-4, 1e-4));
  nodes[1] = Known(2e-4, 1.05e-4);
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf().at(1), 48);
}

TEST_F(LayerAssignmentTest, DrainingNodesWorkOnlyWhereNobodyElseHoldsTheSlice) {
  std::vector<Member> members(2);
  for (Member& member : members) member.weight = 1;
  members[0].state = MemberState::kServing;
  members[1].state = MemberState::kDraining;
  auto held = std::make_shared<SliceSet>(1, 4, 200, kNumSlices);
  for (const int32_t expert : experts_) held->Add({3, expert}, {0, 9});
  members[0].holdings = held;
  PlacementOptions options;
  options.num_slices = kNumSlices;
  const Placement placement(1, options, members);
  Plan(placement, std::vector<NodeFitness>(2, Known(0, 1e-4)));
  EXPECT_EQ(SlicesOf(), (std::map<int, int>{{0, 16 * 9}, {1, 16 * 3}}));
}

TEST_F(LayerAssignmentTest, WhatNobodyFitHoldsStaysWithItsHome) {
  const Placement placement = Serving(2);
  const std::vector<NodeFitness> nodes(2);
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf(), (std::map<int, int>{{0, 96}, {1, 96}}));
  std::vector<NodeRun> runs;
  assignment_.Reassign(7, {0, 3}, {}, &runs);
  EXPECT_TRUE(runs.empty());
}

// Node 0 holds slices 0 to 8 of every expert, the others nothing; all but node
// 2 can fetch.
Placement PartlyHeld(std::span<const int32_t> experts) {
  std::vector<Member> members(3);
  auto held = std::make_shared<SliceSet>(1, 4, 200, kNumSlices);
  auto nothing = std::make_shared<SliceSet>(1, 4, 200, kNumSlices);
  for (const int32_t expert : experts) held->Add({3, expert}, {0, 9});
  for (Member& member : members) {
    member.state = MemberState::kServing;
    member.weight = 1;
    member.holdings = nothing;
    member.fetches = FetchReach::kAll;
  }
  members[0].holdings = held;
  members[2].fetches = FetchReach::kNothing;
  PlacementOptions options;
  options.num_slices = kNumSlices;
  return Placement(1, options, std::move(members));
}

TEST_F(LayerAssignmentTest, WhatNobodyHoldsGoesToWhoCanFetchIt) {
  const Placement placement = PartlyHeld(experts_);
  const std::vector<NodeFitness> nodes(3, Known(0, 1e-4));
  Plan(placement, nodes);
  // Slices 9 to 11 have their home on node 2, which cannot fetch.
  const std::map<int, int> slices = SlicesOf();
  EXPECT_GE(slices.at(0), 16 * 9);
  EXPECT_EQ(slices.count(2), 0u);
  EXPECT_EQ(slices.at(0) + slices.at(1), 16 * 12);
  std::vector<NodeRun> runs;
  assignment_.Reassign(7, {10, 2}, std::vector<int>{0}, &runs);
  EXPECT_EQ(runs, (std::vector<NodeRun>{{1, {10, 2}}}));
  assignment_.Reassign(7, {10, 2}, std::vector<int>{0, 1}, &runs);
  EXPECT_TRUE(runs.empty());
}

TEST_F(LayerAssignmentTest, WhoHoldsItComesBeforeWhoCanFetchIt) {
  const Placement placement = PartlyHeld(experts_);
  std::vector<NodeFitness> nodes(3, Known(0, 1e-4));
  nodes[0] = Known(1, 1);  // slow, and yet
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf().at(0), 16 * 9);
  for (const int32_t expert : experts_) {
    for (const NodeRun& run : assignment_.runs(expert)) {
      EXPECT_EQ(run.node, run.slices.first < 9 ? 0 : 1) << expert;
    }
  }
  nodes[0].fit = false;
  Plan(placement, nodes);
  EXPECT_EQ(SlicesOf(), (std::map<int, int>{{1, 16 * 12}}));
}

TEST_F(LayerAssignmentTest, ReassignsToOthersThanTheExcluded) {
  const Placement placement = Serving(3);
  const std::vector<NodeFitness> nodes(3, Known(0, 1e-4));
  Plan(placement, nodes);
  std::vector<NodeRun> runs;
  assignment_.Reassign(7, {2, 2}, std::vector<int>{0, 2}, &runs);
  EXPECT_EQ(runs, (std::vector<NodeRun>{{1, {2, 2}}}));
}

TEST_F(LayerAssignmentTest, TokensThatShareAnExpertCostLess) {
  const std::vector<int32_t> experts = {5, 5, 5, 9};
  const std::vector<float> weights(4, 1);
  const Placement placement = Serving(1);
  const std::vector<NodeFitness> nodes = {Known(0, 1)};
  assignment_.Plan(placement, 1, {4, 1, experts, weights, {}}, nodes);
  EXPECT_DOUBLE_EQ(assignment_.units(9), 1);
  EXPECT_DOUBLE_EQ(assignment_.units(5), 1.3 / 3);
  EXPECT_DOUBLE_EQ(assignment_.makespan(), 12 * (1 + 1.3));
}

}  // namespace
}  // namespace deltafin
