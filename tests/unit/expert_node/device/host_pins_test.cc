#include "expert_node/device/host_pins.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/host_card.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

constexpr ExpertShape kShape = {96, 544};
constexpr int kSlices = kShape.num_slices();
constexpr size_t kSlot = (kShape.slice_offset(1) + 63) / 64 * 64;
constexpr size_t kPart = 32 * 4096;
static_assert(kSlot % 4096 != 0 && kSlot < kPart);

class HostPinsTest : public ::testing::Test {
 protected:
  void Make(int num_experts, int refused_from = 1 << 30) {
    auto store = TieredStore::Create(std::make_unique<GeneratedStore>(kShape),
                                     {num_experts * kSlices * kSlot, 1});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    pins_ = std::make_unique<HostPins>(*store_, kSlot,
                                       pinned_.pinner(refused_from), kPart);
  }
  bool Covers(size_t slot) {
    return pins_->Covers(store_->memory().data() + slot * kSlot, kSlot);
  }
  static bool IsInOnePart(size_t slot) {
    return slot * kSlot / kPart == ((slot + 1) * kSlot - 1) / kPart;
  }
  size_t num_slots() const { return store_->memory().size() / kSlot; }
  void PinAll() {
    for (size_t slot = 0; slot < num_slots(); ++slot) Covers(slot);
    pins_->WaitUntilIdle();
  }

  testing::PinnedParts pinned_;
  std::unique_ptr<TieredStore> store_;
  std::unique_ptr<HostPins> pins_;  // ends before the store
};

TEST_F(HostPinsTest, PinsThePartsThatAreAskedFor) {
  Make(8);
  EXPECT_FALSE(Covers(0));
  pins_->WaitUntilIdle();
  EXPECT_TRUE(Covers(0));
  EXPECT_EQ(pinned_.num_parts(), 1u);
  EXPECT_EQ(pins_->pinned_bytes(), kPart);
  EXPECT_TRUE(pinned_.Covers(store_->memory().data(), kPart));
}

TEST_F(HostPinsTest, SlicesInTwoPartsAreNeverPinned) {
  Make(8);
  PinAll();
  size_t num_covered = 0;
  for (size_t slot = 0; slot < num_slots(); ++slot) {
    EXPECT_EQ(Covers(slot), IsInOnePart(slot)) << slot;
    num_covered += IsInOnePart(slot);
  }
  EXPECT_GT(num_covered, 0u);
  EXPECT_LT(num_covered, num_slots());
}

TEST_F(HostPinsTest, PinsWholePagesOfTheLastPart) {
  Make(1);
  PinAll();
  EXPECT_EQ(pins_->pinned_bytes() % 4096, 0u);
  EXPECT_GE(pins_->pinned_bytes(), store_->memory().size());
  EXPECT_LT(pins_->pinned_bytes(), store_->memory().size() + 4096);
}

TEST_F(HostPinsTest, PartsAreWholeSlotsWhereSlotsAreWholePages) {
  Make(8);
  pins_.reset();
  const size_t slot = 3 * 4096;
  HostPins pins(*store_, slot, pinned_.pinner(), 2 * slot + 5000);
  uint8_t* const memory = store_->memory().data();
  EXPECT_FALSE(pins.Covers(memory + slot, slot));
  pins.WaitUntilIdle();
  EXPECT_TRUE(pins.Covers(memory + slot, slot));
  EXPECT_EQ(pins.pinned_bytes(), 2 * slot);
}

TEST_F(HostPinsTest, LetsGoOfWhatTheTierGivesBack) {
  Make(8);
  PinAll();
  const size_t all = pinned_.num_parts();
  store_->SetCapacity(2 * kSlices * kSlot);
  const size_t kept = (2 * kSlices * kSlot + kPart - 1) / kPart;
  EXPECT_EQ(pinned_.num_parts(), kept);
  EXPECT_LT(kept, all);
  EXPECT_EQ(pins_->pinned_bytes(), kept * kPart);
  EXPECT_TRUE(Covers(0));
  store_->SetCapacity(8 * kSlices * kSlot);
  PinAll();
  EXPECT_EQ(pinned_.num_parts(), all);
}

TEST_F(HostPinsTest, KeepsThePartInWhichSomethingIsStillUsed) {
  Make(8);
  const std::span<uint8_t> memory = store_->memory();
  const std::span<uint8_t> tail = memory.subspan(kPart + 100);
  EXPECT_EQ(pins_->LetGo(tail).data(), tail.data());  // nothing is pinned
  PinAll();
  const std::span<uint8_t> gone = pins_->LetGo(tail);
  EXPECT_EQ(gone.data(), memory.data() + 2 * kPart);
  EXPECT_EQ(gone.data() + gone.size(), memory.data() + memory.size());
  EXPECT_EQ(pinned_.num_parts(), 2u);
  EXPECT_EQ(pins_->LetGo(memory.subspan(memory.size())).size(), 0u);
  EXPECT_EQ(pinned_.num_parts(), 2u);
  EXPECT_EQ(pins_->LetGo(memory).size(), memory.size());
  EXPECT_EQ(pinned_.num_parts(), 0u);
}

TEST_F(HostPinsTest, ARefusalIsNotAskedForAgain) {
  Make(8, /*refused_from=*/2);
  PinAll();
  EXPECT_EQ(pinned_.num_parts(), 2u);
  PinAll();
  EXPECT_EQ(pinned_.num_pins(), 3);
  EXPECT_EQ(pins_->pinned_bytes(), 2 * kPart);
}

TEST_F(HostPinsTest, WithoutAPinnerNothingIsPinned) {
  Make(8);
  pins_.reset();
  HostPins pins(*store_, kSlot, HostPinner(), kPart);
  EXPECT_FALSE(pins.Covers(store_->memory().data(), kSlot));
  pins.WaitUntilIdle();
  EXPECT_FALSE(pins.Covers(store_->memory().data(), kSlot));
}

TEST_F(HostPinsTest, UnpinsAllAtItsEnd) {
  Make(8);
  PinAll();
  EXPECT_GT(pinned_.num_parts(), 2u);
  pins_.reset();
  EXPECT_EQ(pinned_.num_parts(), 0u);
  store_->SetCapacity(kSlices * kSlot);  // tells nobody
}

}  // namespace
}  // namespace deltafin
