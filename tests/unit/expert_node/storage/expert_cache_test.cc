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

}  // namespace
}  // namespace deltafin
