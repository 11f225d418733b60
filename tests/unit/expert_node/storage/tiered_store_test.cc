#include "expert_node/storage/tiered_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

// Two full slices and a short one.
constexpr ExpertShape kShape = {96, 544};
constexpr int kSlices = 3;

class TieredStoreTest : public ::testing::Test {
 protected:
  void Make(int num_experts, int num_readers = 4) {
    auto lower = std::make_unique<GeneratedStore>(kShape);
    lower_ = lower.get();
    const size_t capacity =
        ExpertCache::SlotBytes(kShape.slice_offset(1)) * kSlices * num_experts;
    auto store = TieredStore::Create(std::move(lower), {capacity, num_readers});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  static std::vector<SliceKey> WholeExperts(std::vector<int> experts) {
    std::vector<SliceKey> keys;
    for (const int expert : experts) {
      for (int slice = 0; slice < kSlices; ++slice) {
        keys.push_back({{1, expert}, slice});
      }
    }
    return keys;
  }

  // Uses every slice in order and checks its bytes.
  void Use(const std::vector<SliceKey>& keys) {
    const auto lease = store_->Acquire(keys);
    for (const int index : lease->order()) {
      const auto bytes = lease->Wait(index);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const std::vector<uint8_t>& want =
          packed_[keys[index].expert.expert][keys[index].slice];
      ASSERT_EQ(std::memcmp(*bytes, want.data(), want.size()), 0)
          << keys[index].expert.expert << "/" << keys[index].slice;
      lease->Release(index);
    }
  }

  // [expert][slice] what the store must give for layer 1.
  static std::vector<std::vector<std::vector<uint8_t>>> PackedExperts() {
    std::vector<std::vector<std::vector<uint8_t>>> packed(8);
    for (int e = 0; e < 8; ++e) {
      const GeneratedExpert expert(kShape, {1, e});
      for (int s = 0; s < kSlices; ++s) packed[e].push_back(expert.Packed(s));
    }
    return packed;
  }

  const std::vector<std::vector<std::vector<uint8_t>>> packed_ =
      PackedExperts();
  GeneratedStore* lower_ = nullptr;
  std::unique_ptr<TieredStore> store_;
};

TEST_F(TieredStoreTest, ReadsASliceOnceAndThenServesItFromMemory) {
  Make(4);
  Use(WholeExperts({0, 1}));
  Use(WholeExperts({1, 0}));
  EXPECT_EQ(lower_->num_slices_read(), 2 * kSlices);
  const TieredStoreStats stats = store_->stats();
  EXPECT_EQ(stats.hits, 2u * kSlices);
  EXPECT_EQ(stats.misses, 2u * kSlices);
  EXPECT_EQ(stats.evictions, 0u);
  EXPECT_EQ(stats.bytes_read, 2 * kShape.payload_bytes());
}

TEST_F(TieredStoreTest, ReadsNeighbouringSlicesOfAnExpertTogether) {
  Make(4);
  Use(WholeExperts({3, 5}));
  EXPECT_EQ(lower_->num_reads(), 2);
}

TEST_F(TieredStoreTest, ReadsOnlyTheSlicesThatAreMissing) {
  Make(4);
  Use({{{1, 0}, 1}});
  Use(WholeExperts({0}));
  EXPECT_EQ(lower_->num_slices_read(), kSlices);
}

TEST_F(TieredStoreTest, ServesMoreThanFitsInWaves) {
  Make(1);
  Use(WholeExperts({0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(store_->stats().evictions, 7u * kSlices);
}

TEST_F(TieredStoreTest, OffersWhatIsInMemoryBeforeWhatMustBeRead) {
  Make(2);
  Use(WholeExperts({5}));
  const auto lease = store_->Acquire(WholeExperts({1, 5}));
  EXPECT_EQ(std::vector<int>(lease->order().begin(), lease->order().end()),
            (std::vector<int>{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(lease->hits(), kSlices);
  EXPECT_EQ(lease->misses(), kSlices);
}

TEST_F(TieredStoreTest, ServesASliceThatIsWantedTwice) {
  Make(1);
  Use({{{1, 0}, 0}, {{1, 0}, 1}, {{1, 0}, 1}, {{1, 0}, 2}, {{1, 0}, 0}});
  EXPECT_EQ(lower_->num_slices_read(), kSlices);
}

TEST_F(TieredStoreTest, ReadsASliceOnceHoweverManyWait) {
  Make(4);
  lower_->Hold();
  std::vector<std::unique_ptr<SliceLease>> leases;
  for (int i = 0; i < 5; ++i) {
    leases.push_back(store_->Acquire(WholeExperts({2})));
  }
  lower_->WaitForReads(1);
  std::thread opener([this] { lower_->Open(); });
  for (const auto& lease : leases) EXPECT_TRUE(lease->Wait(0).ok());
  opener.join();
  EXPECT_EQ(lower_->num_reads(), 1);
}

TEST_F(TieredStoreTest, TellsEveryWaiterOfAFailureAndReadsAgainNextTime) {
  Make(4);
  std::atomic<bool> broken{true};
  lower_->set_failure([&broken](ExpertKey key) {
    return broken && key.expert == 3 ? absl::DataLossError("expert 3 is short")
                                     : absl::OkStatus();
  });
  {
    const auto lease = store_->Acquire(WholeExperts({3, 4}));
    EXPECT_EQ(lease->Wait(0).status(),
              absl::DataLossError("expert 3 is short"));
    EXPECT_EQ(lease->Wait(2).status(),
              absl::DataLossError("expert 3 is short"));
    EXPECT_TRUE(lease->Wait(3).ok());
  }
  broken = false;
  Use(WholeExperts({3}));
}

TEST_F(TieredStoreTest, AnAbandonedLeaseKeepsNobodyWaiting) {
  Make(1);
  const std::vector<SliceKey> keys = WholeExperts({0, 1});
  for (const bool waits_before : {true, false}) {
    auto lease = store_->Acquire(keys);
    // All room is taken by what is not released.
    for (int i = 0; i < kSlices; ++i) ASSERT_TRUE(lease->Wait(i).ok());
    EXPECT_TRUE(lease->IsReady(0));
    EXPECT_FALSE(lease->IsReady(kSlices));
    if (!waits_before) lease->Abandon();
    std::thread user([&] {
      EXPECT_EQ(lease->Wait(2 * kSlices - 1).status().code(),
                absl::StatusCode::kCancelled);
    });
    if (waits_before) lease->Abandon();
    user.join();
    EXPECT_TRUE(lease->Wait(0).ok());  // it is still there
    lease.reset();
  }
  Use(keys);
}

TEST_F(TieredStoreTest, ForgetsReadsOfADroppedLeaseThatHaveNotBegun) {
  Make(2, /*num_readers=*/1);
  lower_->Hold();
  {
    const auto lease = store_->Acquire(WholeExperts({0, 1, 2, 3}));
    lower_->WaitForReads(1);
  }
  lower_->Open();
  Use(WholeExperts({7}));
  EXPECT_EQ(lower_->num_slices_read(),
            2 * kSlices);  // 0, which had begun, and 7
}

TEST_F(TieredStoreTest, LeasesThatWantMoreThanFitsDoNotBlockEachOther) {
  Make(1, /*num_readers=*/3);
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([this, user] {
      std::mt19937 random(user);
      for (int round = 0; round < 10; ++round) {
        std::vector<int> experts;
        for (int i = 0; i < 4; ++i) experts.push_back(random() % 8);
        Use(WholeExperts(experts));
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(store_->stats().hits + store_->stats().misses,
            4u * 10 * 4 * kSlices);
}

TEST_F(TieredStoreTest, RefusesACapacityBelowOneExpertWithTheNumbers) {
  const auto store =
      TieredStore::Create(std::make_unique<GeneratedStore>(kShape),
                          {kShape.payload_bytes() / 2, 1});
  EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(store.status().message());
  EXPECT_NE(message.find("--ram"), std::string::npos) << message;
  EXPECT_NE(message.find("3 slices"), std::string::npos) << message;
}

class ReadAheadTest : public TieredStoreTest {
 protected:
  static std::vector<ExpectedRun> Whole(std::vector<int> experts) {
    std::vector<ExpectedRun> runs;
    for (const int expert : experts) {
      runs.push_back({{1, expert}, {0, kSlices}});
    }
    return runs;
  }

  void AwaitSlicesRead(int64_t count) {
    for (int i = 0; i < 5000 && lower_->num_slices_read() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(lower_->num_slices_read(), count);
  }
};

TEST_F(ReadAheadTest, ReadsWhatIsExpectedOnceAndCountsItsUse) {
  Make(8);
  store_->Expect(1, Whole({0, 1}));
  AwaitSlicesRead(2 * kSlices);
  Use(WholeExperts({1, 2}));
  EXPECT_EQ(lower_->num_slices_read(), 3 * kSlices);
  const TieredStoreStats stats = store_->stats();
  EXPECT_EQ(stats.hits, uint64_t{kSlices});
  EXPECT_EQ(stats.expected.used, uint64_t{kSlices});    // of expert 1
  EXPECT_EQ(stats.expected.wasted, uint64_t{kSlices});  // of expert 0
}

TEST_F(ReadAheadTest, FetchesNothingFromAfarOnAGuess) {
  Make(8);
  lower_->set_far({1, 0});
  store_->Expect(1, Whole({0, 1}));
  AwaitSlicesRead(kSlices);
  Use(WholeExperts({0, 1}));
  EXPECT_EQ(store_->stats().expected.used, uint64_t{kSlices});
  EXPECT_EQ(store_->stats().misses, uint64_t{kSlices});
}

TEST_F(ReadAheadTest, ExpectsNoMoreThanAQuarterOfTheRoom) {
  Make(8);
  store_->Expect(1, Whole({0, 1, 2}));
  AwaitSlicesRead(2 * kSlices);
  Use(WholeExperts({0, 1}));
  EXPECT_EQ(lower_->num_slices_read(), 2 * kSlices);
}

TEST_F(ReadAheadTest, GivesItsRoomToWhatIsWanted) {
  Make(4);
  store_->Expect(2, std::vector<ExpectedRun>{{{2, 0}, {0, kSlices}}});
  AwaitSlicesRead(kSlices);
  // All the room, while layer 2 is still expected.
  const auto lease = store_->Acquire(WholeExperts({0, 1, 2, 3}));
  for (const int index : lease->order()) {
    ASSERT_TRUE(lease->Wait(index).ok());
  }
  EXPECT_EQ(store_->stats().expected.wasted, uint64_t{kSlices});
}

TEST_F(ReadAheadTest, KeepsWhatWasExpectedUntilItsLayerComes) {
  Make(4);
  store_->Expect(2, std::vector<ExpectedRun>{{{2, 0}, {0, kSlices}}});
  AwaitSlicesRead(kSlices);
  for (int i = 0; i < 6; ++i) Use(WholeExperts({i % 3, 3 + i % 3}));
  EXPECT_EQ(store_->stats().expected.wasted, 0u);
  const std::vector<SliceKey> wanted{{{2, 0}, 0}, {{2, 0}, 1}, {{2, 0}, 2}};
  const auto lease = store_->Acquire(wanted);
  EXPECT_TRUE(lease->all_ready());
  EXPECT_EQ(store_->stats().expected.used, uint64_t{kSlices});
}

TEST_F(ReadAheadTest, ManyThreadsThatExpectAndUseGetTheirBytes) {
  Make(4, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 60; ++i) {
        const int a = static_cast<int>(random() % 8);
        const int b = static_cast<int>(random() % 8);
        store_->Expect(1, Whole({a, b}));
        Use(WholeExperts(a == b ? std::vector<int>{a}
                                : std::vector<int>{a, b}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace deltafin
