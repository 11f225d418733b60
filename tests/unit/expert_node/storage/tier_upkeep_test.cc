// The expert tier between requests: it warms up, shrinks, grows.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "expert_node/storage/memory_governor.h"
#include "expert_node/storage/tiered_store.h"
#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

constexpr ExpertShape kShape = {96, 544};
constexpr int kSlices = 3;

// Polls: what is waited for comes from threads of their own.
bool Becomes(const std::function<bool()>& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class TierUpkeepTest : public ::testing::Test {
 protected:
  static size_t BytesOf(int num_experts) {
    return ExpertCache::SlotBytes(kShape.slice_offset(1)) * kSlices *
           num_experts;
  }
  void Make(int num_experts) {
    auto lower = std::make_unique<GeneratedStore>(kShape);
    lower_ = lower.get();
    auto store = TieredStore::Create(std::move(lower), {BytesOf(num_experts)});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // Uses whole experts of layer 1 and compares every byte.
  void Use(const std::vector<int>& experts) {
    std::vector<SliceKey> keys;
    for (const int expert : experts) {
      for (int s = 0; s < kSlices; ++s) keys.push_back({{1, expert}, s});
    }
    const auto lease = store_->Acquire(keys);
    for (const int index : lease->order()) {
      const auto bytes = lease->Wait(index);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const std::vector<uint8_t>& want =
          packed_[keys[index].expert.expert * kSlices + keys[index].slice];
      ASSERT_EQ(std::memcmp(*bytes, want.data(), want.size()), 0);
      lease->Release(index);
    }
  }
  uint64_t Resident() const { return store_->stats().resident_bytes; }

  static std::vector<std::vector<uint8_t>> PackedExperts() {
    std::vector<std::vector<uint8_t>> packed;
    for (int e = 0; e < 8; ++e) {
      const GeneratedExpert expert(kShape, {1, e});
      for (int s = 0; s < kSlices; ++s) packed.push_back(expert.Packed(s));
    }
    return packed;
  }

  const std::vector<std::vector<uint8_t>> packed_ = PackedExperts();
  GeneratedStore* lower_ = nullptr;
  std::unique_ptr<TieredStore> store_;
};

TEST_F(TierUpkeepTest, WarmsUpWithTheHottestThatFit) {
  Make(2);
  store_->WarmUp({9,
                  {{{1, 0}, 5, 0b111},
                   {{1, 1}, 8, 0b111},
                   {{1, 2}, 6, 0b111},
                   {{1, 3}, 7, 0b111}}});
  ASSERT_TRUE(Becomes([&] { return store_->stats().warmed == 2 * kSlices; }));
  Use({1, 3});
  EXPECT_EQ(store_->stats().misses, 0u);
  EXPECT_EQ(lower_->num_slices_read(), 2 * kSlices);
  EXPECT_EQ(store_->stats().evictions, 0u);
}

TEST_F(TierUpkeepTest, WarmsTheSlicesThatWereUsed) {
  Make(4);
  store_->WarmUp({9, {{{1, 0}, 5, 0b101}}});
  ASSERT_TRUE(Becomes([&] { return store_->stats().warmed == 2; }));
  Use({0});
  EXPECT_EQ(store_->stats().hits, 2u);
  EXPECT_EQ(store_->stats().misses, 1u);
}

TEST_F(TierUpkeepTest, WarmsNothingFromAfar) {
  Make(4);
  lower_->set_far({1, 0});
  store_->WarmUp({9, {{{1, 0}, 8, 0b111}, {{1, 1}, 5, 0b111}}});
  ASSERT_TRUE(Becomes([&] { return store_->stats().warmed == kSlices; }));
  Use({0});
  EXPECT_EQ(store_->stats().misses, uint64_t{kSlices});
}

TEST_F(TierUpkeepTest, IgnoresSlicesThatTheModelDoesNotHave) {
  Make(4);
  store_->WarmUp({9, {{{1, 0}, 8, ~uint64_t{0}}, {{1, 1}, 5, 0b1}}});
  ASSERT_TRUE(Becomes([&] { return store_->stats().warmed == kSlices + 1; }));
  Use({0, 1});
  EXPECT_EQ(store_->stats().hits, uint64_t{kSlices + 1});
}

TEST_F(TierUpkeepTest, KeepsTheHeatOfTheRunBefore) {
  Make(2);
  store_->WarmUp({9, {{{1, 0}, 9.5, 0}}});  // hot, nothing to read
  Use({0, 1});
  Use({2});  // in the place of 1
  Use({0});
  EXPECT_EQ(store_->stats().hits, uint64_t{kSlices});
  const HeatPage page = store_->TakeUses();
  EXPECT_GT(page.now, 9);
  EXPECT_EQ(page.uses.size(), 3u);
  for (const ExpertUse& use : page.uses) EXPECT_EQ(use.slices, 0b111u);
}

TEST_F(TierUpkeepTest, ShrinksToTheHottestAndGrowsBack) {
  Make(8);
  for (int i = 0; i < 3; ++i) Use({6, 7});
  Use({0, 1, 2, 3, 4, 5});
  store_->SetCapacity(BytesOf(2));
  EXPECT_EQ(store_->stats().capacity_bytes, BytesOf(2));
  EXPECT_EQ(Resident(), BytesOf(2));
  const uint64_t misses = store_->stats().misses;
  Use({6, 7});
  EXPECT_EQ(store_->stats().misses, misses);
  Use({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(Resident(), BytesOf(2));
  store_->SetCapacity(BytesOf(8));
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  const uint64_t before = store_->stats().misses;
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(store_->stats().misses, before);
}

TEST_F(TierUpkeepTest,
       ShrinksNoFurtherThanOneExpertAndGrowsNoFurtherThanItWas) {
  Make(4);
  store_->SetCapacity(0);
  EXPECT_EQ(store_->stats().capacity_bytes, BytesOf(1));
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  store_->SetCapacity(BytesOf(100));
  EXPECT_EQ(store_->stats().capacity_bytes, BytesOf(4));
  EXPECT_EQ(store_->max_capacity_bytes(), BytesOf(4));
}

TEST_F(TierUpkeepTest, ShrinksWhileALeaseWaitsForRoom) {
  Make(4);
  lower_->Hold();
  std::thread user([this] { Use({0, 1, 2, 3, 4, 5, 6, 7}); });
  lower_->WaitForReads(1);
  store_->SetCapacity(BytesOf(1));
  lower_->Open();
  user.join();
  store_->SetCapacity(BytesOf(1));
  EXPECT_LE(Resident(), BytesOf(1));
}

TEST_F(TierUpkeepTest, ManyUsersGetTheirBytesWhileItsSizeChanges) {
  Make(6);
  std::atomic<bool> done = false;
  std::thread resizer([&] {
    std::mt19937 random(7);
    while (!done) store_->SetCapacity(BytesOf(1 + random() % 6));
  });
  std::vector<std::thread> users;
  for (int t = 0; t < 3; ++t) {
    users.emplace_back([this, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const int a = static_cast<int>(random() % 8);
        store_->Expect(1, std::vector<ExpectedRun>{{{1, a}, {0, kSlices}}});
        Use({a, (a + 3) % 8});
      }
    });
  }
  for (std::thread& user : users) user.join();
  done = true;
  resizer.join();
}

// Answers what the test sets.
class FakeMemory {
 public:
  void Set(int64_t headroom) { headroom_ = headroom; }
  MemoryGovernor::Reader reader() {
    return [this]() -> absl::StatusOr<MemoryReading> {
      if (headroom_ == kFails) return absl::UnavailableError("no /proc");
      MemoryReading reading;
      reading.headroom_bytes = headroom_;
      return reading;
    };
  }
  static constexpr int64_t kFails = -1'000'000'000'000;

 private:
  std::atomic<int64_t> headroom_{int64_t{1} << 40};
};

TEST_F(TierUpkeepTest, AGovernorShrinksTheTierAndLetsItGrowAgain) {
  Make(8);
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  FakeMemory memory;
  const MemoryGovernor governor(*store_, /*reserve_bytes=*/1000,
                                memory.reader(), absl::Milliseconds(1));
  memory.Set(-static_cast<int64_t>(BytesOf(3)));
  ASSERT_TRUE(Becomes([&] { return Resident() <= BytesOf(5); }));
  memory.Set(int64_t{1} << 40);
  ASSERT_TRUE(
      Becomes([&] { return store_->stats().capacity_bytes == BytesOf(8); }));
  Use({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(Resident(), BytesOf(8));
}

TEST_F(TierUpkeepTest, AGovernorThatLearnsNothingChangesNothing) {
  Make(8);
  FakeMemory memory;
  memory.Set(FakeMemory::kFails);
  std::atomic<int> calls = 0;
  const MemoryGovernor governor(
      *store_, 1000,
      [&, reader = memory.reader()] {
        ++calls;
        return reader();
      },
      absl::Milliseconds(1));
  ASSERT_TRUE(Becomes([&] { return calls > 3; }));
  EXPECT_EQ(store_->stats().capacity_bytes, BytesOf(8));
}

}  // namespace
}  // namespace deltafin
