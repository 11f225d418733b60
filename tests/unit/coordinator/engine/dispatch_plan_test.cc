#include "coordinator/engine/dispatch_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace deltafin {
namespace {

std::unique_ptr<CutPolicy> EvenCut(int num_nodes, int num_slices) {
  return NewProportionalCut(std::vector<double>(num_nodes, 1.0), num_slices);
}

// Expert e, of one slice, belongs to owners[e].
class OwnersByExpert : public CutPolicy {
 public:
  explicit OwnersByExpert(std::vector<int> owners)
      : owners_(std::move(owners)) {}
  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    *runs = {{owners_[key.expert], {0, 1}}};
  }

 private:
  const std::vector<int> owners_;
};

struct Routing {
  int num_tokens = 0;
  int top_k = 0;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  RoutedTokens view() const {
    return {num_tokens, top_k, experts, weights, {}};
  }
};

Routing MakeRouting(int num_tokens, int top_k) {
  Routing routing = {num_tokens, top_k, {}, {}};
  for (int token = 0; token < num_tokens; ++token) {
    for (int k = 0; k < top_k; ++k) {
      routing.experts.push_back(k * 7 + token % 7);
      routing.weights.push_back(static_cast<float>(token * top_k + k));
    }
  }
  return routing;
}

void Build(DispatchPlan* plan, const LayerId& id, const Routing& routing,
           const CutPolicy& policy, int num_nodes) {
  plan->Build(
      id, routing.view(), num_nodes,
      [&](int32_t expert, std::vector<NodeRun>* runs) {
        policy.Cut({id.layer, expert}, runs);
      },
      [](int32_t) { return 1.0; });
}

// How often each (token, expert, slice, weight) was asked of any node.
std::map<std::tuple<int, int, int, float>, int> Asked(
    const DispatchPlan& plan) {
  std::map<std::tuple<int, int, int, float>, int> asked;
  for (int node = 0; node < plan.num_nodes(); ++node) {
    for (const PlannedPart& part : plan.parts(node)) {
      uint32_t next = 0;
      for (size_t row = 0; row < part.rows.size(); ++row) {
        for (; next < part.request.assignment_end(row); ++next) {
          for (uint32_t i = 0; i < part.request.num_slices(next); ++i) {
            ++asked[{part.rows[row], part.request.expert(next),
                     part.request.first_slice(next) + i,
                     part.request.weight(next)}];
          }
        }
      }
    }
  }
  return asked;
}

TEST(DispatchPlanTest, TellsEachNodeHowManyPartsItGets) {
  const Routing routing = MakeRouting(300, 4);
  DispatchPlan plan;
  Build(&plan, {1, 2, 3}, routing, *EvenCut(2, 12), 2);
  for (int node = 0; node < 2; ++node) {
    ASSERT_EQ(plan.parts(node).size(), 3u);  // of 128, 128 and 44 tokens
    for (const PlannedPart& part : plan.parts(node)) {
      EXPECT_EQ(part.request.num_parts(), 3u);
    }
  }
}

TEST(DispatchPlanTest, AsksForEveryTokenExpertAndSliceOnce) {
  for (const int num_nodes : {1, 2, 3, 5, 8}) {
    for (const int num_slices : {1, 3, 12}) {
      const Routing routing = MakeRouting(300, 4);
      DispatchPlan plan;
      Build(&plan, {1, 2, 3}, routing, *EvenCut(num_nodes, num_slices),
            num_nodes);
      const auto asked = Asked(plan);
      EXPECT_EQ(asked.size(), size_t(300) * 4 * num_slices);
      for (const auto& [triple, times] : asked) EXPECT_EQ(times, 1);
    }
  }
}

TEST(DispatchPlanTest, CutsMessagesAtTheTokenBoundAndNumbersThem) {
  const Routing routing = MakeRouting(300, 2);
  DispatchPlan plan;
  Build(&plan, {9, 8, 7}, routing, *EvenCut(2, 12), 2);
  for (int node = 0; node < 2; ++node) {
    ASSERT_EQ(plan.parts(node).size(), 3u);
    EXPECT_EQ(plan.parts(node)[0].request.num_tokens(), 128u);
    EXPECT_EQ(plan.parts(node)[2].request.num_tokens(), 44u);
    EXPECT_EQ(plan.parts(node)[2].rows.front(), 256);
    EXPECT_EQ(plan.parts(node)[2].request.part(), 2u);
    EXPECT_EQ(plan.parts(node)[2].request.epoch(), 9u);
    EXPECT_EQ(plan.parts(node)[2].request.step(), 8u);
    EXPECT_EQ(plan.parts(node)[2].request.layer(), 7u);
  }
}

TEST(DispatchPlanTest, SendsANodeOnlyTheTokensThatHaveWorkThere) {
  // One slice per expert: experts 0 and 2 on node 0, expert 1 on node 1.
  const Routing routing = {3, 1, {0, 1, 2}, {1, 1, 1}};
  DispatchPlan plan;
  Build(&plan, {1, 1, 0}, routing, OwnersByExpert({0, 1, 0}), 3);
  ASSERT_EQ(plan.parts(0).size(), 1u);
  EXPECT_EQ(plan.parts(0)[0].rows, (std::vector<int32_t>{0, 2}));
  ASSERT_EQ(plan.parts(1).size(), 1u);
  EXPECT_EQ(plan.parts(1)[0].rows, (std::vector<int32_t>{1}));
  EXPECT_TRUE(plan.parts(2).empty());
}

TEST(DispatchPlanTest, ForgetsTheLayerBefore) {
  DispatchPlan plan;
  const auto policy = EvenCut(2, 3);
  const Routing large = MakeRouting(300, 4);
  const Routing small = MakeRouting(1, 4);
  Build(&plan, {1, 1, 1}, large, *policy, 2);
  Build(&plan, {1, 1, 2}, small, *policy, 2);
  EXPECT_EQ(plan.num_tokens(), 1);
  EXPECT_EQ(Asked(plan).size(), 12u);
  EXPECT_EQ(plan.parts(0)[0].num_slices + plan.parts(1)[0].num_slices, 12u);
}

// Two tokens with experts 0 and 1 of four slices, half of each on nodes 0 and
// 1; node 2 has nothing yet.
class ReplacedPartTest : public ::testing::Test {
 protected:
  ReplacedPartTest() {
    const Routing routing = {2, 2, {0, 1, 0, 1}, {1, 2, 3, 4}};
    Build(&plan_, {1, 1, 1}, routing, *EvenCut(2, 4), 3);
  }

  // Gives the first part of node 0 to nodes 1 and 2, a slice each.
  void ReplaceFirst() {
    std::vector<std::vector<NodeRun>> runs;
    for (const uint32_t first : plan_.part({0, 0}).request.first_slice()) {
      const auto slice = static_cast<int32_t>(first);
      runs.push_back({{1, {slice, 1}}, {2, {slice + 1, 1}}});
    }
    plan_.Replace({0, 0}, runs);
  }

  PartState StateOf(PartRef ref) const { return plan_.part(ref).state; }

  DispatchPlan plan_;
};

TEST_F(ReplacedPartTest, AsksForTheSameOnceMore) {
  const auto before = Asked(plan_);
  ReplaceFirst();
  EXPECT_EQ(plan_.part({0, 0}).replaced_by,
            (std::vector<PartRef>{{1, 1}, {2, 0}}));
  EXPECT_EQ(plan_.part({2, 0}).rows, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(plan_.part({1, 1}).request.part(), 1u);
  EXPECT_EQ(plan_.part({1, 1}).num_slices, 4u);
  int num_twice = 0;
  for (const auto& [what, times] : Asked(plan_)) {
    EXPECT_TRUE(before.contains(what));
    num_twice += times == 2;
  }
  EXPECT_EQ(num_twice, 8);
}

TEST_F(ReplacedPartTest, OthersAnswersStandForItAndItsOwnIsDropped) {
  ReplaceFirst();
  plan_.MarkAnswered({1, 0});
  plan_.MarkAnswered({2, 0});
  EXPECT_EQ(StateOf({0, 0}), PartState::kSuperseded);
  EXPECT_FALSE(plan_.complete());
  EXPECT_EQ(plan_.num_open(0), 0);
  EXPECT_EQ(plan_.num_open(1), 1);
  plan_.MarkAnswered({1, 1});
  EXPECT_TRUE(plan_.complete());
}

TEST_F(ReplacedPartTest, ItsOwnAnswerComesFirstAndTheOthersAreDropped) {
  ReplaceFirst();
  plan_.MarkAnswered({0, 0});
  EXPECT_EQ(StateOf({1, 1}), PartState::kSuperseded);
  EXPECT_EQ(StateOf({2, 0}), PartState::kSuperseded);
  EXPECT_FALSE(plan_.complete());
  plan_.MarkAnswered({1, 0});
  EXPECT_TRUE(plan_.complete());
}

TEST_F(ReplacedPartTest, AReplacementIsReplacedInTurn) {
  ReplaceFirst();
  std::vector<std::vector<NodeRun>> runs;
  for (const uint32_t first : plan_.part({2, 0}).request.first_slice()) {
    runs.push_back({{1, {static_cast<int32_t>(first), 1}}});
  }
  plan_.Replace({2, 0}, runs);
  plan_.MarkAnswered({1, 2});
  EXPECT_EQ(StateOf({2, 0}), PartState::kSuperseded);
  EXPECT_EQ(StateOf({0, 0}), PartState::kSuperseded);
  EXPECT_EQ(StateOf({1, 1}), PartState::kOpen);
  plan_.MarkAnswered({1, 1});
  EXPECT_FALSE(plan_.complete());
  plan_.MarkAnswered({1, 0});
  EXPECT_TRUE(plan_.complete());
}

TEST_F(ReplacedPartTest, AnAnswerFarUpDropsWhatStandsForItAtEveryDepth) {
  ReplaceFirst();
  plan_.Replace({2, 0}, std::vector<std::vector<NodeRun>>(
                            4, std::vector<NodeRun>{{1, {1, 1}}}));
  plan_.MarkAnswered({0, 0});
  EXPECT_EQ(StateOf({1, 2}), PartState::kSuperseded);
  EXPECT_EQ(plan_.num_open(1), 1);
  EXPECT_EQ(plan_.num_open(2), 0);
}

}  // namespace
}  // namespace deltafin
