#include "expert_node/work_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace deltafin {
namespace {

LayerWork WorkOf(std::vector<std::vector<Assignment>> tokens) {
  LayerWork work;
  work.layer = 3;
  work.num_tokens = static_cast<int>(tokens.size());
  for (const auto& assignments : tokens) {
    work.assignments.insert(work.assignments.end(), assignments.begin(),
                            assignments.end());
    work.assignment_end.push_back(static_cast<int>(work.assignments.size()));
  }
  return work;
}

WorkPlan PlanOf(const LayerWork& work) { return PlanWork(MergedWork(work)); }

TEST(WorkPlanTest, GroupsTokensByExpertAndRun) {
  const WorkPlan plan = PlanOf(WorkOf({
      {{7, {0, 2}, 0.1f}, {2, {0, 2}, 0.2f}},
      {{2, {0, 2}, 0.3f}, {2, {4, 1}, 0.3f}},
  }));
  ASSERT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.groups[0].expert, 2);
  EXPECT_EQ(plan.groups[0].run, (SliceRun{0, 2}));
  EXPECT_EQ(plan.groups[0].weights, (std::vector<float>{0.2f, 0.3f}));
  EXPECT_EQ(plan.token_lists[plan.groups[0].token_list].tokens,
            (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.groups[1].run, (SliceRun{4, 1}));
  EXPECT_EQ(plan.groups[2].expert, 7);
  EXPECT_EQ(plan.num_terms, 2 * 2 + 1 + 2);
}

TEST(WorkPlanTest, MakesOneUnitForEachSliceOfAGroup) {
  const WorkPlan plan = PlanOf(WorkOf({{{5, {1, 3}, 1}}}));
  ASSERT_EQ(plan.units.size(), 3u);
  EXPECT_EQ(plan.slices[0], (SliceKey{{3, 5}, 1}));
  EXPECT_EQ(plan.slices[2], (SliceKey{{3, 5}, 3}));
  EXPECT_EQ(plan.units[2].slice, 3);
}

TEST(WorkPlanTest, NumbersRowsOfTokensWithWorkOnly) {
  const WorkPlan plan = PlanOf(
      WorkOf({{}, {{1, {0, 1}, 1}}, {}, {{1, {0, 1}, 1}, {4, {0, 1}, 1}}}));
  EXPECT_EQ(plan.row_tokens, (std::vector<int>{1, 3}));
  const TokenList& both = plan.token_lists[plan.groups[0].token_list];
  EXPECT_EQ(both.tokens, (std::vector<int>{1, 3}));
  EXPECT_EQ(both.rows, (std::vector<int>{0, 1}));
}

TEST(WorkPlanTest, SharesOneTokenListAmongExpertsOfTheSameTokens) {
  const WorkPlan plan =
      PlanOf(WorkOf({{{1, {0, 1}, 1}, {2, {0, 1}, 1}, {3, {0, 1}, 1}}}));
  EXPECT_EQ(plan.groups.size(), 3u);
  EXPECT_EQ(plan.token_lists.size(), 1u);
}

TEST(WorkPlanTest, WantsASliceOfSeveralPartsOnce) {
  const LayerWork first = WorkOf({{{1, {0, 2}, 0.1f}}, {{4, {0, 1}, 0.2f}}});
  const LayerWork second = WorkOf({{}, {{1, {0, 2}, 0.3f}}});
  const LayerWork* const parts[] = {&first, &second};
  const WorkPlan plan = PlanWork(MergedWork(parts));
  ASSERT_EQ(plan.groups.size(), 2u);
  EXPECT_EQ(plan.token_lists[plan.groups[0].token_list].tokens,
            (std::vector<int>{0, 3}));
  EXPECT_EQ(plan.groups[0].weights, (std::vector<float>{0.1f, 0.3f}));
  EXPECT_EQ(plan.slices,
            (std::vector<SliceKey>{{{3, 1}, 0}, {{3, 1}, 1}, {{3, 4}, 0}}));
  EXPECT_EQ(plan.row_tokens, (std::vector<int>{0, 1, 3}));
}

TEST(WorkPlanTest, IsEmptyForARequestWithoutWork) {
  const WorkPlan plan = PlanOf(WorkOf({{}, {}}));
  EXPECT_TRUE(plan.row_tokens.empty());
  EXPECT_TRUE(plan.units.empty());
  EXPECT_EQ(plan.num_terms, 0);
}

}  // namespace
}  // namespace deltafin
