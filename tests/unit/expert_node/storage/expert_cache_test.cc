#include "expert_node/storage/expert_cache.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

using State = ExpertCache::State;

SliceKey Key(int expert, int slice = 0) { return {{1, expert}, slice}; }

std::unique_ptr<ExpertCache> CacheOf(size_t num_slots) {
  auto cache = ExpertCache::Create(100, num_slots * 128, /*half_life=*/2);
  EXPECT_TRUE(cache.ok());
  return *std::move(cache);
}

// Inserts a ready, unpinned entry.
ExpertCache::Entry* Add(ExpertCache& cache, const SliceKey& key) {
  ExpertCache::Entry* entry = cache.Insert(key);
  if (entry == nullptr) return nullptr;
  cache.SetReady(entry);
  cache.Unpin(entry);
  return entry;
}

bool Has(ExpertCache& cache, const SliceKey& key) {
  ExpertCache::Entry* entry = cache.Find(key);
  if (entry != nullptr) cache.Unpin(entry);
  return entry != nullptr;
}

TEST(ExpertCacheTest, CutsItsMemoryIntoSlotsThatStartOnCacheLines) {
  const auto cache = CacheOf(3);
  EXPECT_EQ(cache->num_slots(), 3u);
  EXPECT_EQ(cache->slot_bytes(), 128u);
  for (int i = 0; i < 3; ++i) {
    const auto* entry = cache->Insert(Key(i));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry->bytes()) % 64, 0u);
  }
}

TEST(ExpertCacheTest, EvictsTheSliceWhoseExpertWasUsedLeastOfLate) {
  const auto cache = CacheOf(2);
  for (const int expert : {1, 1, 2}) {
    cache->BeginRequest();
    cache->Use({1, expert});
    if (!Has(*cache, Key(expert))) Add(*cache, Key(expert));
  }
  // 1 was used twice, earlier: 2^(1/2) + 2^(2/2) against 2^(3/2).
  cache->BeginRequest();
  cache->Use({1, 3});
  Add(*cache, Key(3));
  EXPECT_TRUE(Has(*cache, Key(3)));
  EXPECT_FALSE(Has(*cache, Key(2)));
  EXPECT_EQ(cache->evictions(), 1u);
}

TEST(ExpertCacheTest, EvictsTheSliceThatRestsLongestAmongThoseAlike) {
  const auto cache = CacheOf(2);
  Add(*cache, Key(1));
  Add(*cache, Key(2));
  EXPECT_TRUE(Has(*cache, Key(1)));  // now 2 is the older one
  Add(*cache, Key(3));
  EXPECT_TRUE(Has(*cache, Key(1)));
  EXPECT_FALSE(Has(*cache, Key(2)));
  EXPECT_TRUE(Has(*cache, Key(3)));
  EXPECT_EQ(cache->evictions(), 1u);
}

TEST(ExpertCacheTest, NeverEvictsAPinnedSlice) {
  const auto cache = CacheOf(2);
  Add(*cache, Key(1));
  Add(*cache, Key(2));
  auto* pinned = cache->Find(Key(1));
  ASSERT_NE(Add(*cache, Key(3)), nullptr);  // takes the slot of 2
  auto* pinned_too = cache->Find(Key(3));
  EXPECT_EQ(cache->Insert(Key(4)), nullptr);
  EXPECT_EQ(pinned->key(), Key(1));
  EXPECT_TRUE(cache->Unpin(pinned_too));
  EXPECT_NE(cache->Insert(Key(4)), nullptr);
}

TEST(ExpertCacheTest, KeepsASliceUntilItsLastPinIsGone) {
  const auto cache = CacheOf(1);
  auto* entry = Add(*cache, Key(1));
  cache->Find(Key(1));
  cache->Pin(entry);
  EXPECT_FALSE(cache->Unpin(entry));
  EXPECT_EQ(cache->Insert(Key(2)), nullptr);
  EXPECT_TRUE(cache->Unpin(entry));
  EXPECT_NE(cache->Insert(Key(2)), nullptr);
}

TEST(ExpertCacheTest, FindsASliceThatIsStillBeingFilled) {
  const auto cache = CacheOf(1);
  auto* entry = cache->Insert(Key(1));
  EXPECT_EQ(cache->Find(Key(1)), entry);
  EXPECT_EQ(entry->state(), State::kFilling);
}

TEST(ExpertCacheTest, ForgetsAFailedSliceButKeepsItsReasonForThoseWhoWait) {
  const auto cache = CacheOf(1);
  auto* entry = cache->Insert(Key(1));
  cache->SetFailed(entry, absl::DataLossError("short read"));
  EXPECT_FALSE(Has(*cache, Key(1)));
  EXPECT_EQ(entry->error(), absl::DataLossError("short read"));
  EXPECT_EQ(cache->Insert(Key(1)), nullptr);  // the slot is still in use
  EXPECT_TRUE(cache->Unpin(entry));
  EXPECT_NE(cache->Insert(Key(1)), nullptr);
  EXPECT_EQ(cache->evictions(), 0u);
}

// A cache whose experts 0, 1, ... were used once, twice, ..., each with a byte
// of its own in its slice.
std::unique_ptr<ExpertCache> HeatedCache(int num_slots) {
  auto cache = CacheOf(num_slots);
  for (int e = 0; e < num_slots; ++e) {
    for (int use = 0; use <= e; ++use) cache->Use({1, e});
    ExpertCache::Entry* const entry = cache->Insert(Key(e));
    entry->bytes()[0] = static_cast<uint8_t>(e);
    cache->SetReady(entry);
    cache->Unpin(entry);
  }
  return cache;
}

int ByteOf(ExpertCache& cache, int expert) {
  ExpertCache::Entry* const entry = cache.Find(Key(expert));
  if (entry == nullptr) return -1;
  const int byte = entry->bytes()[0];
  cache.Unpin(entry);
  return byte;
}

TEST(ExpertCacheTest, KeepsTheHottestTogetherWhenItShrinks) {
  const auto cache = HeatedCache(8);
  EXPECT_TRUE(cache->Resize(3, 100));
  EXPECT_EQ(cache->num_slots(), 3u);
  EXPECT_EQ(cache->evictions(), 5u);
  for (int e = 0; e < 5; ++e) EXPECT_EQ(ByteOf(*cache, e), -1) << e;
  for (int e = 5; e < 8; ++e) EXPECT_EQ(ByteOf(*cache, e), e);
  EXPECT_EQ(cache->UnusedTail().size(), 5u * 128);
}

TEST(ExpertCacheTest, MovesAFewSlicesAtATime) {
  const auto cache = HeatedCache(8);
  EXPECT_FALSE(cache->Resize(3, 1));
  EXPECT_FALSE(cache->Resize(3, 1));
  EXPECT_TRUE(cache->Resize(3, 1));
  for (int e = 5; e < 8; ++e) EXPECT_EQ(ByteOf(*cache, e), e);
  EXPECT_EQ(cache->UnusedTail().size(), 5u * 128);
}

TEST(ExpertCacheTest, LeavesPinnedSlicesWhereTheyAreUntilTheirLastPinGoes) {
  const auto cache = HeatedCache(4);
  ExpertCache::Entry* const pinned = cache->Find(Key(3));
  EXPECT_TRUE(cache->Resize(1, 100));
  EXPECT_EQ(pinned->bytes()[0], 3);
  EXPECT_TRUE(cache->UnusedTail().empty());
  cache->Unpin(pinned);
  EXPECT_EQ(ByteOf(*cache, 3), -1);
  EXPECT_EQ(cache->UnusedTail().size(), 3u * 128);
}

TEST(ExpertCacheTest, GivesOutNoSlotBeyondItsEnd) {
  const auto cache = HeatedCache(4);
  EXPECT_TRUE(cache->Resize(2, 100));
  ExpertCache::Entry* const first = cache->Insert(Key(10));
  ExpertCache::Entry* const second = cache->Insert(Key(11));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(cache->Insert(Key(12)), nullptr);
  EXPECT_EQ(cache->UnusedTail().size(), 2u * 128);
}

TEST(ExpertCacheTest, HasItsSlotsBackWhenItGrows) {
  const auto cache = HeatedCache(4);
  ExpertCache::Entry* const pinned = cache->Find(Key(3));
  EXPECT_TRUE(cache->Resize(1, 100));
  EXPECT_TRUE(cache->Resize(4, 100));
  EXPECT_TRUE(cache->UnusedTail().empty());
  cache->Unpin(pinned);
  EXPECT_EQ(ByteOf(*cache, 3), 3);
  for (int e = 10; e < 13; ++e) ASSERT_NE(cache->Insert(Key(e)), nullptr);
  EXPECT_EQ(ByteOf(*cache, 3), 3);
  EXPECT_NE(cache->Insert(Key(13)), nullptr);  // that of 3
  EXPECT_EQ(cache->Insert(Key(14)), nullptr);
}

TEST(ExpertCacheTest, AFailedSliceBeyondTheEndIsNoFreeSlot) {
  const auto cache = CacheOf(2);
  ExpertCache::Entry* const first = cache->Insert(Key(0));
  ExpertCache::Entry* const second = cache->Insert(Key(1));
  EXPECT_TRUE(cache->Resize(1, 100));
  for (ExpertCache::Entry* entry : {first, second}) {
    cache->SetFailed(entry, absl::DataLossError("bad"));
    cache->Unpin(entry);
  }
  EXPECT_NE(cache->Insert(Key(2)), nullptr);
  EXPECT_EQ(cache->Insert(Key(3)), nullptr);
}

}  // namespace
}  // namespace deltafin
