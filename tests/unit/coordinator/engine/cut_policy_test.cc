#include "coordinator/engine/cut_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace deltafin {
namespace {

std::vector<NodeRun> Cut(const CutPolicy& policy, ExpertKey key) {
  std::vector<NodeRun> runs;
  policy.Cut(key, &runs);
  return runs;
}

void ExpectCoversOnce(const std::vector<NodeRun>& runs, int num_nodes,
                      int num_slices) {
  int next = 0;
  for (const NodeRun& run : runs) {
    EXPECT_EQ(run.slices.first, next);
    EXPECT_GE(run.slices.count, 1);
    EXPECT_GE(run.node, 0);
    EXPECT_LT(run.node, num_nodes);
    next += run.slices.count;
  }
  EXPECT_EQ(next, num_slices);
}

TEST(CutPolicyTest, EverySliceHasOneNodeWhateverTheNumbers) {
  for (int num_nodes = 1; num_nodes <= 13; ++num_nodes) {
    for (const int num_slices : {1, 2, 3, 12}) {
      const auto even = NewEvenCut(num_nodes, num_slices);
      const auto random = NewRandomCut(num_nodes, num_slices, 5);
      for (int expert = 0; expert < 40; ++expert) {
        ExpectCoversOnce(Cut(*even, {3, expert}), num_nodes, num_slices);
        ExpectCoversOnce(Cut(*random, {3, expert}), num_nodes, num_slices);
      }
    }
  }
}

TEST(CutPolicyTest, EvenCutGivesEachNodeTheSameSharesOfManyExperts) {
  for (const int num_nodes : {1, 2, 3, 4, 5, 7, 8, 12}) {
    for (const int num_slices : {1, 3, 12}) {
      const auto policy = NewEvenCut(num_nodes, num_slices);
      std::vector<int> load(num_nodes);
      for (int expert = 0; expert < num_nodes; ++expert) {
        for (const NodeRun& run : Cut(*policy, {0, expert})) {
          load[run.node] += run.slices.count;
        }
      }
      EXPECT_EQ(load, std::vector<int>(num_nodes, num_slices))
          << num_nodes << " nodes, " << num_slices << " slices";
    }
  }
}

TEST(CutPolicyTest, EvenSharesDifferByAtMostOneSlice) {
  for (const NodeRun& run : Cut(*NewEvenCut(5, 12), {0, 9})) {
    EXPECT_TRUE(run.slices.count == 2 || run.slices.count == 3);
  }
}

TEST(CutPolicyTest, WholeExpertsRotateOverNodesWhereThereIsOneSlice) {
  const auto policy = NewEvenCut(3, 1);
  EXPECT_EQ(Cut(*policy, {0, 4}), (std::vector<NodeRun>{{1, {0, 1}}}));
  EXPECT_EQ(Cut(*policy, {0, 5}), (std::vector<NodeRun>{{2, {0, 1}}}));
  EXPECT_EQ(Cut(*policy, {1, 5}), (std::vector<NodeRun>{{0, {0, 1}}}));
}

TEST(CutPolicyTest, RandomCutRepeatsForASeedAndDiffersBetweenSeeds) {
  const auto one = NewRandomCut(4, 12, 1);
  const auto same = NewRandomCut(4, 12, 1);
  const auto other = NewRandomCut(4, 12, 2);
  int num_different = 0;
  std::set<int> nodes;
  for (int expert = 0; expert < 50; ++expert) {
    EXPECT_EQ(Cut(*one, {2, expert}), Cut(*same, {2, expert}));
    if (Cut(*one, {2, expert}) != Cut(*other, {2, expert})) ++num_different;
    for (const NodeRun& run : Cut(*one, {2, expert})) nodes.insert(run.node);
  }
  EXPECT_GT(num_different, 40);
  EXPECT_EQ(nodes.size(), 4u);
}

}  // namespace
}  // namespace deltafin
