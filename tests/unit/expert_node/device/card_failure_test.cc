// Cards that fail while they work.
#include <gtest/gtest.h>

#include "tests/unit/expert_node/device/card_machine.h"

namespace deltafin {
namespace {

ModelSpec Spec() { return SmallSpec(kCardShape); }

LayerWork Work(int i) { return GeneratedWork(Spec(), 1 + i % 4, 1 + i, i); }

const std::vector<int64_t>& WantedSums(int i) {
  static const std::vector<int64_t> sums[] = {DefinedSums(Spec(), Work(0)),
                                              DefinedSums(Spec(), Work(1))};
  return sums[i];
}

// Runs works 0 and 1 on cards whose first is to fail at call `fail_from`.
// Returns the calls that it saw.
int RunTwo(int num_cards, int fail_from, bool processor_computes = false,
           int ram_experts = 8) {
  CardMachineOptions options;
  options.ram_experts = ram_experts;
  options.num_cards = num_cards;
  options.card_slots = 8;
  options.processor_computes = processor_computes;
  options.pins_refused_from = 1 << 30;
  CardMachine machine(options);
  machine.OpenCards();
  machine.orders(0).fail_from = fail_from;
  for (int i = 0; i < 2; ++i) {
    const LayerWork work = Work(i);
    const LayerResult result = machine.Run(work);
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(SumsOf(result), WantedSums(i))
        << "call " << fail_from << ", work " << i;
  }
  const int calls = machine.orders(0).num_calls;
  const bool failed = calls > fail_from;
  EXPECT_EQ(machine.cards().num_failed, failed ? 1 : 0);
  EXPECT_EQ(machine.cards().num_cards, num_cards - (failed ? 1 : 0));
  return calls;
}

TEST(CardFailureTest, AnyCallThatFailsLeavesTheBitsAsTheyAre) {
  const int calls = RunTwo(1, 1 << 30);
  ASSERT_GT(calls, 20);
  for (int call = 0; call < calls; ++call) RunTwo(1, call);
}

TEST(CardFailureTest, TheOtherCardGoesOn) {
  const int calls = RunTwo(2, 1 << 30);
  for (int call = 0; call < calls; call += 3) RunTwo(2, call);
}

TEST(CardFailureTest, WhatTheProcessorHadComputedDoesNotCountTwice) {
  for (int call = 0; call < 30; ++call) RunTwo(1, call, true);
  for (int call = 0; call < 30; call += 3) RunTwo(2, call, true);
}

// What a card reads when it fails is room that others wait for.
TEST(CardFailureTest, NobodyWaitsForTheRoomOfACardThatFailed) {
  for (int call = 0; call < 60; ++call) {
    RunTwo(1 + call % 2, call, call % 3 != 0, /*ram_experts=*/1);
  }
}

TEST(CardFailureTest, CountsOfACardThatFailedStay) {
  CardMachine machine({});
  machine.OpenCards();
  machine.Run(Work(0));
  const uint64_t misses = machine.cards().tiers.misses;
  ASSERT_GT(misses, 0u);
  machine.orders(0).fail_from = 0;
  machine.Run(Work(1));
  const CardSetStats stats = machine.cards();
  EXPECT_EQ(stats.num_cards, 0);
  EXPECT_GE(stats.tiers.misses, misses);
  EXPECT_EQ(stats.tiers.capacity_bytes, 0u);
  EXPECT_EQ(stats.free_bytes, 0u);
}

}  // namespace
}  // namespace deltafin
