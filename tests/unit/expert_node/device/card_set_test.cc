// The engine with cards against the definition: bits, books, refusals.
#include "expert_node/device/card_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <random>
#include <thread>
#include <tuple>

#include "tests/unit/expert_node/device/card_machine.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;

ModelSpec Spec() { return SmallSpec(kCardShape); }

// The first `count` of some works, in all layers; each gives the defined sums.
void ExpectDefinedSums(CardMachine& machine, int count) {
  struct Case {
    LayerWork work;
    std::vector<int64_t> sums;
  };
  static std::vector<Case>* const cases = new std::vector<Case>;
  for (int i = 0; i < count; ++i) {
    if (i == static_cast<int>(cases->size())) {
      const LayerWork work = GeneratedWork(Spec(), 1 + i % 4, 1 + i % 6, i);
      cases->push_back({work, DefinedSums(Spec(), work)});
    }
    const Case& c = (*cases)[i];
    const LayerResult result = machine.Run(c.work);
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(SumsOf(result), c.sums) << "work " << i;
  }
}

TEST(CardSetTest, GivesTheDefinedSumsForAnyCapacityAndNumberOfCards) {
  for (const int num_cards : {1, 2, 3}) {
    for (const int slots : {3, 4, 7, 40, 96}) {
      CardMachineOptions options;
      options.num_cards = num_cards;
      options.card_slots = slots;
      options.ram_experts = slots == 7 ? 1 : 8;
      CardMachine machine(options);
      machine.OpenCards();
      ExpectDefinedSums(machine, 9);
      const CardSetStats stats = machine.cards();
      EXPECT_EQ(stats.num_cards, num_cards);
      EXPECT_EQ(stats.num_failed, 0);
      EXPECT_GT(stats.tiers.misses, 0u);
      EXPECT_LE(stats.tiers.resident_bytes, stats.tiers.capacity_bytes);
      if (slots <= 7) {
        EXPECT_GT(stats.tiers.evictions, 0u) << slots << " slots";
      }
      if (slots * num_cards >= 96) {
        EXPECT_GT(stats.tiers.hits, 0u);
        EXPECT_EQ(stats.tiers.evictions, 0u);
      }
    }
  }
}

TEST(CardSetTest, BitsDoNotDependOnThreads) {
  for (const int num_threads : {1, 5}) {
    CardMachineOptions options;
    options.num_cards = 2;
    options.num_threads = num_threads;
    options.card_slots = 6;
    CardMachine machine(options);
    machine.OpenCards();
    ExpectDefinedSums(machine, 8);
  }
}

TEST(CardSetTest, GivesTheDefinedSumsWithTheProcessorBesideTheCards) {
  uint64_t computed = 0;
  uint64_t copied = 0;
  for (const int num_cards : {1, 2, 5}) {
    for (const int num_threads : {1, 2, 5}) {
      for (const int ram_experts : {1, 8}) {
        CardMachineOptions options;
        options.num_cards = num_cards;
        options.num_threads = num_threads;
        options.ram_experts = ram_experts;
        options.card_slots = 6;
        options.processor_computes = true;
        options.pins_refused_from = 1 << 30;
        CardMachine machine(options);
        machine.OpenCards();
        ExpectDefinedSums(machine, 8);
        const CardTierStats tiers = machine.cards().tiers;
        EXPECT_LE(tiers.computed, tiers.misses);
        computed += tiers.computed;
        copied += tiers.copied_bytes;
      }
    }
  }
  EXPECT_GT(computed, 0u);
  EXPECT_GT(copied, 0u);
}

TEST(CardSetTest, CopiesFromTheRamTierOnceItIsPinned) {
  CardMachineOptions options;
  options.card_slots = 6;
  options.pins_refused_from = 1 << 30;
  CardMachine machine(options);
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 20, 3);  // all eight experts
  machine.Run(work);
  machine.WaitUntilPinned();
  EXPECT_GT(machine.cards().pinned_bytes, 4 * CardMachine::SlotBytes());
  const int before = machine.orders(0).num_direct_copies;
  EXPECT_EQ(SumsOf(machine.Run(work)), DefinedSums(Spec(), work));
  // All but those that lie in two parts.
  EXPECT_GT(machine.orders(0).num_direct_copies, before + 8);
  EXPECT_LT(machine.orders(0).num_direct_copies,
            machine.orders(0).num_copies - 3);
}

TEST(CardSetTest, GivesTheDefinedSumsWhereMemoryCannotBePinned) {
  CardMachineOptions options;
  options.card_slots = 6;
  options.pins_refused_from = 1;
  CardMachine machine(options);
  machine.OpenCards();
  ExpectDefinedSums(machine, 8);
  machine.WaitUntilPinned();
  EXPECT_EQ(machine.pinned().num_parts(), 1u);
  EXPECT_EQ(machine.pinned().num_pins(), 2);  // and never again
  EXPECT_EQ(machine.cards().num_cards, 1);
}

TEST(CardSetTest, GivesTheDefinedSumsWhileTheRamTierChangesItsSize) {
  CardMachineOptions options;
  options.card_slots = 6;
  options.pins_refused_from = 1 << 30;
  options.processor_computes = true;
  CardMachine machine(options);
  machine.OpenCards();
  std::atomic<bool> done = false;
  std::thread resizer([&] {
    std::mt19937 random(7);
    while (!done) {
      machine.tiers().SetCapacity((1 + random() % 8) * kCardSlices *
                                  CardMachine::SlotBytes());
    }
  });
  ExpectDefinedSums(machine, 12);
  ExpectDefinedSums(machine, 12);
  done = true;
  resizer.join();
  EXPECT_GT(machine.pinned().num_pins(), 0);
}

TEST(CardSetTest, ReadsAndCopiesASliceOnceWhileItHasRoom) {
  CardMachine machine({});
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 20, 3);  // all eight experts
  const LayerResult cold = machine.Run(work);
  EXPECT_EQ(cold.cache_misses, 8 * kCardSlices);
  EXPECT_EQ(cold.bytes_read, 8 * kCardShape.payload_bytes());
  EXPECT_EQ(machine.cards().tiers.misses, 8u * kCardSlices);
  EXPECT_EQ(machine.cards().tiers.copied_bytes, 8 * kCardShape.payload_bytes());
  const LayerResult warm = machine.Run(work);
  EXPECT_EQ(SumsOf(warm), SumsOf(cold));
  EXPECT_EQ(warm.cache_hits, 8 * kCardSlices);
  EXPECT_EQ(warm.cache_misses, 0);
  EXPECT_EQ(warm.bytes_read, 0u);
  EXPECT_EQ(warm.read, absl::ZeroDuration());
  EXPECT_EQ(machine.cards().tiers.hits, 8u * kCardSlices);
  EXPECT_EQ(machine.orders(0).num_copies, 8 * kCardSlices);
}

TEST(CardSetTest, PartsAndShortRunsGiveWhatTheyGiveAlone) {
  const ModelSpec spec = Spec();
  std::vector<LayerWork> parts;
  for (int p = 0; p < 3; ++p) {
    parts.push_back(GeneratedWork(spec, 2, 7, 50 + p));
    // Of each expert only slices 1 and 2, or 0.
    for (Assignment& a : parts.back().assignments) {
      a.run = p == 1 ? SliceRun{1, 2} : p == 2 ? SliceRun{0, 1} : a.run;
    }
  }
  CardMachineOptions options;
  options.card_slots = 5;
  CardMachine machine(options);
  machine.OpenCards();
  const auto results = machine.RunParts(parts);
  for (size_t p = 0; p < parts.size(); ++p) {
    ASSERT_TRUE(results[p].status.ok()) << results[p].status;
    EXPECT_EQ(SumsOf(results[p]), DefinedSums(spec, parts[p])) << p;
  }
}

TEST(CardSetTest, KeepsTheExpertsThatAreUsedMost) {
  const ModelSpec spec = Spec();
  CardMachineOptions options;
  options.card_slots = 8 * kCardSlices;
  CardMachine machine(options);
  machine.OpenCards();
  LayerWork hot = GeneratedWork(spec, 2, 1, 3);
  for (int i = 0; i < 10; ++i) machine.Run(hot);
  for (int layer : {1, 3}) machine.Run(GeneratedWork(spec, layer, 1, 4));
  const uint64_t copied = machine.cards().tiers.copied_bytes;
  machine.Run(hot);
  EXPECT_EQ(machine.cards().tiers.copied_bytes, copied);
  EXPECT_GT(machine.cards().tiers.evictions, 0u);
}

TEST(CardSetTest, WhatIsOnACardIsStillHotForTheDrive) {
  CardMachine machine({});
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 1, 3);
  machine.Run(work);
  const ExpertKey key = {2, work.assignments[0].expert};
  const double before = machine.tiers().HeatOf(key);
  machine.Run(work);  // from the card alone
  EXPECT_GT(machine.tiers().HeatOf(key), before);
  EXPECT_EQ(machine.tiers().stats().hits, 0u);
}

TEST(CardSetTest, LeavesTheHeadroomFree) {
  CardMachineOptions options;
  options.card_slots = 50;
  CardMachine machine(options);
  machine.orders(0).memory_bytes = 30 * CardMachine::SlotBytes();
  machine.OpenCards();  // one slot's bytes stay free
  EXPECT_EQ(machine.cards().tiers.capacity_bytes,
            29 * CardMachine::SlotBytes());
  EXPECT_EQ(machine.cards().free_bytes, CardMachine::SlotBytes());
  ExpectDefinedSums(machine, 4);
}

TEST(CardSetTest, AnAllocationThatFailsMakesTheTierSmaller) {
  CardMachineOptions options;
  options.card_slots = 50;
  options.slots_at_once = 4;
  CardMachine machine(options);
  machine.orders(0).allocatable_bytes = 31 * CardMachine::SlotBytes();
  machine.OpenCards();
  EXPECT_EQ(machine.cards().tiers.capacity_bytes,
            28 * CardMachine::SlotBytes());
  EXPECT_EQ(machine.cards().num_cards, 1);
  ExpectDefinedSums(machine, 4);
}

TEST(CardSetTest, ACardWithoutRoomForAnExpertIsLeftOut) {
  CardMachine machine({});
  machine.orders(0).memory_bytes = kCardSlices * CardMachine::SlotBytes();
  machine.OpenCards();
  EXPECT_EQ(machine.cards().num_cards, 0);
  EXPECT_EQ(machine.cards().num_failed, 1);
  ExpectDefinedSums(machine, 2);
  EXPECT_EQ(machine.orders(0).num_runs, 0);
}

TEST(CardSetTest, CardsThatGiveNothingOrAreNotThereAreLeftOut) {
  CardMachineOptions options;
  options.num_cards = 2;
  CardMachine machine(options);
  machine.orders(0).allocatable_bytes = 0;
  machine.orders(1).memory_bytes = 0;  // there is none
  machine.OpenCards();
  EXPECT_EQ(machine.cards().num_cards, 0);
  EXPECT_EQ(machine.cards().num_failed, 2);
  ExpectDefinedSums(machine, 2);
}

TEST(CardSetTest, MoreTokensThanTheCardsWereOpenedForGoToTheProcessor) {
  CardMachineOptions options;
  options.max_rows = 5;
  CardMachine machine(options);
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 6, 3);
  EXPECT_EQ(SumsOf(machine.Run(work)), DefinedSums(Spec(), work));
  EXPECT_EQ(machine.orders(0).num_runs, 0);
  EXPECT_EQ(machine.cards().num_cards, 1);
}

TEST(CardSetTest, TellsWhatIsOnNoCardForReadingAhead) {
  CardMachineOptions options;
  options.num_cards = 2;
  CardMachine machine(options);
  machine.OpenCards();
  LayerWork work = GeneratedWork(Spec(), 2, 1, 3);
  work.assignments.resize(2);
  work.assignment_end = {2};
  work.assignments[0] = {4, {1, 1}, 0.5f};
  work.assignments[1] = {6, {0, 3}, 0.5f};
  ASSERT_TRUE(machine.Run(work).status.ok());
  const ExpertKey four = {2, 4}, six = {2, 6}, other = {3, 6};
  const ExpectedRun runs[] = {{four, {0, 3}}, {six, {0, 3}}, {other, {1, 2}}};
  std::vector<std::tuple<ExpertKey, int, int>> lacking;
  for (const ExpectedRun& run : machine.card_set().Lacking(runs)) {
    lacking.emplace_back(run.expert, run.run.first, run.run.count);
  }
  EXPECT_THAT(lacking,
              ElementsAre(std::tuple(four, 0, 1), std::tuple(four, 2, 1),
                          std::tuple(other, 1, 2)));
}

TEST(CardSetTest, NamesNumericErrorsAsTheProcessorDoes) {
  const ModelSpec spec = Spec();
  LayerWork nan = GeneratedWork(spec, 2, 9, 3);
  nan.latent[4 * kCardShape.latent_size + 5] =
      std::numeric_limits<float>::quiet_NaN();
  LayerWork large = GeneratedWork(spec, 2, 9, 3);
  for (Assignment& a : large.assignments) a.weight = 1e30f;
  const std::pair<LayerWork, bool> cases[] = {
      {nan, false}, {large, false}, {nan, true}, {large, true}};
  for (const auto& [work, processor_computes] : cases) {
    CardMachineOptions options;
    options.num_cards = 2;
    options.processor_computes = processor_computes;
    CardMachine machine(options), processor(options);
    machine.OpenCards();
    processor.orders(0).memory_bytes = processor.orders(1).memory_bytes = 0;
    processor.OpenCards();
    const LayerResult got = machine.Run(work);
    const LayerResult want = processor.Run(work);
    EXPECT_EQ(got.status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(got.status, want.status);
    EXPECT_EQ(got.error_expert, want.error_expert);
    EXPECT_EQ(got.error_token, want.error_token);
    EXPECT_EQ(machine.cards().num_cards, 2);  // no fault of theirs
    ExpectDefinedSums(machine, 2);
  }
}

TEST(CardSetTest, AnExpertThatCannotBeReadFailsTheRequestAndNoCard) {
  CardMachineOptions options;
  options.num_cards = 2;
  CardMachine machine(options);
  std::atomic<bool> broken{true};
  machine.store().set_failure([&](ExpertKey key) {
    return broken && key.expert == 6 ? absl::DataLossError("expert 6 is short")
                                     : absl::OkStatus();
  });
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 20, 3);  // all eight experts
  const LayerResult result = machine.Run(work);
  EXPECT_EQ(result.status, absl::DataLossError("expert 6 is short"));
  EXPECT_TRUE(result.sums.empty());
  broken = false;
  EXPECT_EQ(SumsOf(machine.Run(work)), DefinedSums(Spec(), work));
  EXPECT_EQ(machine.cards().num_cards, 2);
}

TEST(CardSetTest, StopsWhenCancelledAndGoesOnWithTheNextRequest) {
  CardMachine machine({});
  std::atomic<bool> cancelled{false};
  machine.store().set_failure([&](ExpertKey) {
    cancelled = true;
    return absl::OkStatus();
  });
  machine.OpenCards();
  const LayerWork work = GeneratedWork(Spec(), 2, 20, 3);
  const LayerResult result = machine.Run(work, cancelled);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(result.sums.empty());
  EXPECT_EQ(SumsOf(machine.Run(work)), DefinedSums(Spec(), work));
  EXPECT_EQ(machine.cards().num_cards, 1);
}

}  // namespace
}  // namespace deltafin
