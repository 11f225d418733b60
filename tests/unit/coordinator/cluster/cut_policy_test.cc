#include "coordinator/cluster/cut_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace deltafin {
namespace {

constexpr int kNumExperts = 896;
constexpr int kTopK = 16;

std::vector<NodeRun> Cut(const CutPolicy& policy, ExpertKey key) {
  std::vector<NodeRun> runs;
  policy.Cut(key, &runs);
  return runs;
}

std::vector<double> Even(int num_nodes) {
  return std::vector<double>(num_nodes, 1.0);
}

void ExpectCoversOnce(const std::vector<NodeRun>& runs,
                      const std::vector<double>& weights, int num_slices) {
  int next = 0;
  for (const NodeRun& run : runs) {
    EXPECT_EQ(run.slices.first, next);
    EXPECT_GE(run.slices.count, 1);
    ASSERT_GE(run.node, 0);
    ASSERT_LT(run.node, static_cast<int>(weights.size()));
    EXPECT_GT(weights[run.node], 0);
    next += run.slices.count;
  }
  EXPECT_EQ(next, num_slices);
}

void ExpectAllCoverOnce(const std::vector<double>& weights, int num_slices) {
  const auto proportional = NewProportionalCut(weights, num_slices);
  const auto whole = NewWholeExperts(weights, num_slices);
  const auto random = NewRandomCut(weights, num_slices, 5);
  for (int expert = 0; expert < kNumExperts; ++expert) {
    ExpectCoversOnce(Cut(*proportional, {3, expert}), weights, num_slices);
    ExpectCoversOnce(Cut(*whole, {3, expert}), weights, num_slices);
    ExpectCoversOnce(Cut(*random, {3, expert}), weights, num_slices);
    EXPECT_EQ(Cut(*whole, {3, expert}).size(), 1u);
  }
}

TEST(CutPolicyTest, EverySliceHasOneNodeWhateverTheNumbers) {
  for (const int num_slices : {1, 2, 3, 12}) {
    for (int num_nodes = 1; num_nodes <= 13; ++num_nodes) {
      ExpectAllCoverOnce(Even(num_nodes), num_slices);
    }
    ExpectAllCoverOnce({1, 2, 4}, num_slices);
    ExpectAllCoverOnce({0, 1, 0, 1e-9, 3e9, 0}, num_slices);
  }
}

// Slices of one layer by node, summed over some experts.
std::vector<double> Load(const CutPolicy& policy, size_t num_nodes, int layer,
                         const std::vector<int>& experts) {
  std::vector<double> load(num_nodes);
  for (const int expert : experts) {
    for (const NodeRun& run : Cut(policy, {layer, expert})) {
      load[run.node] += run.slices.count;
    }
  }
  return load;
}

std::vector<int> AllExperts() {
  std::vector<int> experts(kNumExperts);
  std::iota(experts.begin(), experts.end(), 0);
  return experts;
}

TEST(CutPolicyTest, AllExpertsTogetherAreCutInProportion) {
  for (const auto& weights : std::vector<std::vector<double>>{
           Even(2), Even(5), Even(8), {1, 2, 4}, {1, 1, 1, 3}}) {
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    const auto policy = NewProportionalCut(weights, 12);
    const auto load = Load(*policy, weights.size(), 7, AllExperts());
    for (size_t node = 0; node < weights.size(); ++node) {
      const double share = weights[node] / total * 12 * kNumExperts;
      EXPECT_NEAR(load[node] / share, 1, 0.01) << node;
    }
  }
}

TEST(CutPolicyTest, ASharesSlicesAreTheWholeNumbersNextToIt) {
  const auto policy = NewProportionalCut(Even(5), 12);
  for (int expert = 0; expert < 50; ++expert) {
    for (const NodeRun& run : Cut(*policy, {0, expert})) {
      EXPECT_TRUE(run.slices.count == 2 || run.slices.count == 3);
    }
  }
}

// Mean load of a node over that of the busiest one, for layers of 16 experts
// drawn at random.
double Balance(const CutPolicy& policy, const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::mt19937 random(1);
  std::vector<int> experts = AllExperts();
  double busiest = 0;
  constexpr int kLayers = 1000;
  for (int layer = 0; layer < kLayers; ++layer) {
    std::shuffle(experts.begin(), experts.end(), random);
    const auto load = Load(policy, weights.size(), layer % 92,
                           {experts.begin(), experts.begin() + kTopK});
    double most = 0;
    for (size_t node = 0; node < weights.size(); ++node) {
      const double share = weights[node] / total * 12 * kTopK;
      most = std::max(most, load[node] / share);
    }
    busiest += most;
  }
  return kLayers / busiest;
}

TEST(CutPolicyTest, SixteenExpertsBalanceOverTheNodes) {
  const auto balance = [](const std::vector<double>& weights) {
    return Balance(*NewProportionalCut(weights, 12), weights);
  };
  EXPECT_EQ(balance(Even(2)), 1);
  EXPECT_EQ(balance(Even(3)), 1);
  EXPECT_EQ(balance(Even(4)), 1);
  EXPECT_GE(balance(Even(5)), 0.93);
  EXPECT_GE(balance(Even(8)), 0.93);
  EXPECT_GE(balance({1, 2, 4}), 0.95);
}

TEST(CutPolicyTest, WholeExpertsBalanceWorse) {
  EXPECT_LT(Balance(*NewWholeExperts(Even(4), 12), Even(4)), 0.7);
}

TEST(CutPolicyTest, LayersDoNotRepeatEachOthersCuts) {
  const auto policy = NewProportionalCut(Even(5), 12);
  int num_different = 0;
  for (int expert = 0; expert < 100; ++expert) {
    if (Cut(*policy, {1, expert}) != Cut(*policy, {2, expert})) ++num_different;
  }
  EXPECT_GT(num_different, 30);
}

TEST(CutPolicyTest, RandomCutRepeatsForASeedAndDiffersBetweenSeeds) {
  const auto one = NewRandomCut(Even(4), 12, 1);
  const auto same = NewRandomCut(Even(4), 12, 1);
  const auto other = NewRandomCut(Even(4), 12, 2);
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
