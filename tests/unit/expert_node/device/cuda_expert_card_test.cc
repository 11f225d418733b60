// The engine on an NVIDIA card, where there is one.
#include "expert_node/device/cuda_expert_card.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_experts.h"
#include "tests/unit/expert_node/device/card_machine.h"

namespace deltafin {
namespace {

class CudaExpertCardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    const std::vector<CudaCard> cards = FindCudaCards(&why);
    if (cards.empty()) GTEST_SKIP() << "not run: " << why;
    num_cards_ = static_cast<int>(cards.size());
  }

  CardMachineOptions Options(int slots) const {
    CardMachineOptions options;
    options.card_slots = slots;
    options.open = OpenCudaExpertCard;
    return options;
  }

  // Runs works of up to `max_tokens` tokens and expects the defined sums.
  static void ExpectDefinedSums(CardMachine& machine, int count,
                                int max_tokens) {
    const ModelSpec spec = SmallSpec(kCardShape);
    for (int i = 0; i < count; ++i) {
      const LayerWork work =
          GeneratedWork(spec, 1 + i % 4, 1 + i * 7 % max_tokens, i);
      const LayerResult result = machine.Run(work);
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_EQ(SumsOf(result), DefinedSums(spec, work)) << "work " << i;
    }
  }

  int num_cards_ = 0;
};

TEST_F(CudaExpertCardTest, GivesTheDefinedSumsForAnyCapacity) {
  for (const int slots : {3, 5, 24, 96}) {
    CardMachine machine(Options(slots));
    machine.OpenCards();
    ASSERT_EQ(machine.cards().num_cards, 1);
    ExpectDefinedSums(machine, 24, 33);
    EXPECT_EQ(machine.cards().num_cards, 1);
    if (slots < 96) {
      EXPECT_GT(machine.cards().tiers.evictions, 0u);
    }
  }
}

TEST_F(CudaExpertCardTest, GivesTheDefinedSumsForMoreTokensThanACallTakes) {
  CardMachineOptions options = Options(20);
  options.max_rows = 400;
  CardMachine machine(options);
  machine.OpenCards();
  ExpectDefinedSums(machine, 4, 400);
  EXPECT_EQ(machine.cards().num_cards, 1);
}

TEST_F(CudaExpertCardTest, CardsShareALayer) {
  CardMachineOptions options = Options(20);
  options.num_cards = num_cards_;
  CardMachine machine(options);
  machine.OpenCards();
  EXPECT_EQ(machine.cards().num_cards, num_cards_);
  ExpectDefinedSums(machine, 12, 9);
  EXPECT_EQ(machine.cards().num_failed, 0);
}

TEST_F(CudaExpertCardTest, TakesNoMoreMemoryThanIsFree) {
  CardMachineOptions options = Options(20);
  options.card_slots = 1 << 30;
  CardMachine machine(options);
  machine.OpenCards();
  const CardSetStats stats = machine.cards();
  EXPECT_EQ(stats.num_cards, 1);
  EXPECT_EQ(stats.tiers.capacity_bytes, 96 * CardMachine::SlotBytes());
  EXPECT_GT(stats.free_bytes, 0u);
}

TEST(CudaExpertCardAbsenceTest, SaysInOneSentenceWhatIsNotThere) {
  CardLimits limits;
  limits.shape = kCardShape;
  const auto card = OpenCudaExpertCard(63, limits);
  ASSERT_FALSE(card.ok());
  EXPECT_EQ(card.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(card.status().message().empty());
  EXPECT_EQ(std::string(card.status().message()).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace deltafin
