// What a node keeps on its drive and in its ledger, and changing it while it
// runs.

#include "expert_node/storage/stored_experts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

const std::string kModel(64, 'a');
constexpr SliceRun kAll = {0, 3};

// A tier over a record store over generated experts.
class StoredExpertsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }

  void Start() {
    records_ = OpenRecords(folder_.path(), kRaggedShape);
    auto source = std::make_unique<GeneratedStore>(kRaggedShape);
    source_ = source.get();
    auto fetching = std::make_unique<FetchingStore>(
        *records_, std::move(source), FetchingStoreOptions());
    fetching_ = fetching.get();
    auto tier = TieredStore::Create(std::move(fetching), {size_t{1} << 20});
    ASSERT_TRUE(tier.ok()) << tier.status();
    tier_ = *std::move(tier);
    LedgerOptions ledger;
    ledger.folder = folder_.path();
    ledger.manifest_digest = kModel;
    ledger.interval = absl::Hours(1);
    ledger_ = std::make_unique<LedgerKeeper>(ledger, *tier_, records_.get());
    stored_ = std::make_unique<StoredExperts>(*records_, *fetching_, *tier_,
                                              *ledger_);
  }
  void Stop() {
    stored_.reset();
    ledger_.reset();
    tier_.reset();
    records_.reset();
  }
  void Use(ExpertKey key) {
    const std::vector<SliceKey> wanted{{key, 0}, {key, 1}, {key, 2}};
    const auto lease = tier_->Acquire(wanted);
    for (const int index : lease->order()) {
      const auto bytes = lease->Wait(index);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      lease->Release(index);
    }
    fetching_->WaitForInstalls();
  }
  bool Holds(ExpertKey key) const { return records_->Holds(key, kAll); }
  static uint64_t BytesOf(int num_experts) {
    return kRaggedShape.payload_bytes() * num_experts;
  }

  const DiskFolder folder_;
  std::unique_ptr<RecordStore> records_;
  GeneratedStore* source_ = nullptr;
  FetchingStore* fetching_ = nullptr;
  std::unique_ptr<TieredStore> tier_;
  std::unique_ptr<LedgerKeeper> ledger_;
  std::unique_ptr<StoredExperts> stored_;
};

TEST_F(StoredExpertsTest, RemovesAnExpertThatIsThenFetchedAgain) {
  Use({1, 0});
  ASSERT_TRUE(Holds({1, 0}));
  EXPECT_EQ(*stored_->Remove({1, 0}), 1);
  EXPECT_FALSE(Holds({1, 0}));
  EXPECT_EQ(records_->stats().held_bytes, 0u);
  EXPECT_EQ(*stored_->Remove({1, 0}), 0);
  ASSERT_TRUE(stored_->Fetch({1, 0}).ok());
  EXPECT_TRUE(Holds({1, 0}));
  EXPECT_EQ(source_->num_slices_read(), 6);
  ASSERT_TRUE(stored_->Fetch({1, 0}).ok());  // it is there
  EXPECT_EQ(source_->num_slices_read(), 6);
}

TEST_F(StoredExpertsTest, RefusesExpertsThatTheModelDoesNotHave) {
  EXPECT_TRUE(absl::IsInvalidArgument(stored_->Remove({1, 8}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(stored_->Remove({0, 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(stored_->Remove({-1, 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(stored_->Fetch({1, 8})));
  EXPECT_TRUE(absl::IsInvalidArgument(stored_->Fetch({7, 0})));
}

TEST_F(StoredExpertsTest, ALowerQuotaStopsInstallsAndRemovesNothing) {
  Use({1, 0});
  Use({1, 1});
  EXPECT_EQ(*stored_->SetQuota(BytesOf(1), StoredExperts::Surplus::kKeep), 0);
  EXPECT_EQ(records_->stats().held_bytes, BytesOf(2));
  const absl::Status fetched = stored_->Fetch({1, 2});
  EXPECT_TRUE(absl::IsResourceExhausted(fetched)) << fetched;
  Use({1, 2});  // served all the same
  EXPECT_EQ(*stored_->SetQuota(std::nullopt, StoredExperts::Surplus::kKeep), 0);
  EXPECT_TRUE(stored_->Fetch({1, 2}).ok());
}

TEST_F(StoredExpertsTest, RemovesTheExpertsUsedLeast) {
  for (const int expert : {2, 0, 1, 3}) Use({1, expert});
  Use({1, 0});
  Use({1, 3});
  const auto removed =
      stored_->SetQuota(BytesOf(2), StoredExperts::Surplus::kRemoveColdest);
  ASSERT_TRUE(removed.ok()) << removed.status();
  EXPECT_EQ(*removed, 2);
  EXPECT_TRUE(Holds({1, 0}));
  EXPECT_TRUE(Holds({1, 3}));
  EXPECT_EQ(records_->stats().held_bytes, BytesOf(2));
}

TEST_F(StoredExpertsTest, TheQuotaCountsAfterARestart) {
  ASSERT_TRUE(
      stored_->SetQuota(BytesOf(1), StoredExperts::Surplus::kKeep).ok());
  Stop();
  Start();
  EXPECT_EQ(records_->stats().quota_bytes, BytesOf(1));
  EXPECT_TRUE(stored_->Fetch({1, 0}).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(stored_->Fetch({1, 1})));
}

TEST_F(StoredExpertsTest, WhatWasUsedIsInMemoryAfterARestart) {
  Use({1, 0});
  Use({2, 5});
  Stop();
  Start();
  for (int i = 0; i < 10'000 && tier_->stats().warmed < 6; ++i) usleep(1000);
  Use({1, 0});
  Use({2, 5});
  EXPECT_EQ(tier_->stats().misses, 0u);
  EXPECT_EQ(source_->num_slices_read(), 0);
}

TEST_F(StoredExpertsTest, TheLedgerTellsWhatIsHeldAndUsed) {
  Use({1, 0});
  ledger_->Write();
  const auto ledger = ExpertIndex::Read(folder_.path());
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  EXPECT_EQ(ledger->held.at({1, 0}).slices, 0b111u);
  EXPECT_EQ(ledger->held.at({1, 0}).identity, *records_->Identity({1, 0}));
  ASSERT_EQ(ledger->heat.uses.size(), 1u);
  EXPECT_EQ(ledger->heat.uses[0].slices, 0b111u);
}

TEST_F(StoredExpertsTest, ServesWithoutALedger) {
  Stop();
  std::filesystem::remove_all(folder_.File("ledger"));
  std::ofstream(folder_.File("ledger")) << "in the way";
  Start();
  Use({1, 0});
  EXPECT_TRUE(Holds({1, 0}));
  const auto quota = stored_->SetQuota(5, StoredExperts::Surplus::kKeep);
  EXPECT_TRUE(absl::IsUnavailable(quota.status())) << quota.status();
  EXPECT_EQ(records_->stats().quota_bytes, RecordStoreOptions::kNoQuota);
}

TEST_F(StoredExpertsTest, ExpertsComeAndGoWhileTheyAreUsed) {
  std::atomic<bool> done = false;
  std::thread changer([&] {
    for (int i = 0; !done; ++i) {
      const ExpertKey key = {1, i % 8};
      EXPECT_TRUE(stored_->Remove(key).ok());
      EXPECT_TRUE(stored_
                      ->SetQuota(BytesOf(1 + i % 8),
                                 StoredExperts::Surplus::kRemoveColdest)
                      .ok());
    }
  });
  for (int i = 0; i < 40; ++i) Use({1, i % 8});
  done = true;
  changer.join();
  EXPECT_LE(records_->stats().held_bytes, BytesOf(8));
}

}  // namespace
}  // namespace deltafin
