#include "coordinator/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;

MemoryDemand Demand() {
  MemoryDemand demand;
  demand.spine.weight_bytes = 4 * kGiB;
  demand.spine.sequence_fixed_bytes = 1000;
  demand.spine.sequence_token_bytes = 10;
  demand.spine.step_token_bytes = 3;
  demand.context_tokens = 100;
  demand.max_sequences = 2;
  demand.prefill_chunk = 50;
  demand.all_expert_bytes = 8 * kGiB;
  return demand;
}

TEST(MemoryPlanTest, AddsUpItsParts) {
  const MemoryPlan plan = PlanMemory(Demand(), 100 * kGiB);
  EXPECT_EQ(plan.spine_bytes, 4 * kGiB);
  EXPECT_EQ(plan.sequence_bytes, 2 * (1000 + 100 * 10u));
  EXPECT_EQ(plan.step_bytes, 50 * 3u);
  EXPECT_EQ(plan.budget.total(), plan.spine_bytes + plan.sequence_bytes +
                                     plan.step_bytes + plan.tier_bytes +
                                     kReserveBytes);
}

TEST(MemoryPlanTest, ExpertsGetWhatIsLeftAndNoMoreThanThereAre) {
  EXPECT_EQ(PlanMemory(Demand(), 100 * kGiB).tier_bytes, 8 * kGiB);
  const MemoryPlan tight = PlanMemory(Demand(), 6 * kGiB);
  EXPECT_EQ(tight.budget.total(), 6 * kGiB);
  EXPECT_LT(tight.tier_bytes, 2 * kGiB);
  EXPECT_TRUE(tight.Check().ok());
}

TEST(MemoryPlanTest, RetainedStatesTakeWhatIsSaidOrAShare) {
  MemoryDemand demand = Demand();
  EXPECT_EQ(PlanMemory(demand, 100 * kGiB).retained_bytes, 0u);
  demand.retained_bytes = 3 * kGiB;
  MemoryPlan plan = PlanMemory(demand, 10 * kGiB);
  EXPECT_EQ(plan.retained_bytes, 3 * kGiB);
  EXPECT_EQ(plan.budget.total(), 10 * kGiB);
  EXPECT_THAT(plan.budget.Table(), HasSubstr("retained"));
  // By itself as much as the sequences hold, or an eighth of what is left.
  demand.retained_bytes.reset();
  EXPECT_EQ(PlanMemory(demand, 100 * kGiB).retained_bytes, 4000u);
  demand.spine.sequence_fixed_bytes = kGiB;
  plan = PlanMemory(demand, 7 * kGiB);
  const uint64_t left = 7 * kGiB - plan.spine_bytes - plan.sequence_bytes -
                        plan.step_bytes - kReserveBytes;
  EXPECT_EQ(plan.retained_bytes, left / 8);
  EXPECT_TRUE(plan.Check().ok());
}

TEST(MemoryPlanTest, DraftsTakeRoomInEverySequence) {
  MemoryDemand demand = Demand();
  demand.spine.sequence_draft_bytes = 70;
  EXPECT_EQ(PlanMemory(demand, 100 * kGiB).sequence_bytes, 4000u);
  demand.has_drafts = true;
  EXPECT_EQ(PlanMemory(demand, 100 * kGiB).sequence_bytes, 4140u);
}

TEST(MemoryPlanTest, RemoteExpertsTakeNothing) {
  MemoryDemand demand = Demand();
  demand.all_expert_bytes = 0;
  EXPECT_EQ(PlanMemory(demand, 100 * kGiB).tier_bytes, 0u);
}

TEST(MemoryPlanTest, WhatDoesNotFitIsRefusedWithTheNumbers) {
  const absl::Status status = PlanMemory(Demand(), 3 * kGiB).Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("spine"), HasSubstr("4.00 GiB"), HasSubstr("3.00 GiB")));
  MemoryDemand demand = Demand();
  demand.tier_bytes = 200 * kGiB;
  EXPECT_FALSE(PlanMemory(demand, 100 * kGiB).Check().ok());
}

}  // namespace
}  // namespace deltafin
