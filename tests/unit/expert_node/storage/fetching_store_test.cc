#include "expert_node/storage/fetching_store.h"

#include <atomic>
#include <thread>

#include "expert_node/storage/released_identity.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

constexpr ExpertKey kKey = {2, 3};
constexpr SliceRun kAll = {0, 3};

class FetchingStoreTest : public ::testing::Test {
 protected:
  void Make(const RecordStoreOptions& options = SmallReserve()) {
    records_ = OpenRecords(folder_.path(), kRaggedShape, options);
    auto lower = std::make_unique<GeneratedStore>(kRaggedShape);
    source_ = lower.get();
    fetching_ = std::make_unique<FetchingStore>(*records_, std::move(lower),
                                                FetchingStoreOptions{});
  }
  void ExpectGood(ExpertKey key, SliceRun run) {
    const ReadResult got = ReadRun(*fetching_, key, run);
    ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
    EXPECT_TRUE(got.ready == PackedSlices(kRaggedShape, key, run));
  }

  const DiskFolder folder_;
  std::unique_ptr<RecordStore> records_;
  GeneratedStore* source_ = nullptr;
  std::unique_ptr<FetchingStore> fetching_;
};

TEST_F(FetchingStoreTest, FetchesOnceAndServesFromTheDriveAfterwards) {
  Make();
  ExpectGood(kKey, kAll);
  fetching_->WaitForInstalls();
  EXPECT_TRUE(records_->Holds(kKey, kAll));
  for (int i = 0; i < 3; ++i) ExpectGood(kKey, {i, 1});
  EXPECT_EQ(source_->num_reads(), 1);
  EXPECT_EQ(fetching_->stats().fetches, 1u);
  EXPECT_EQ(fetching_->stats().runs_installed, 1u);
  const GeneratedExpert expert(kRaggedShape, kKey);
  EXPECT_EQ(records_->Identity(kKey),
            IdentityOfReleased(kRaggedShape, expert.released()));
}

TEST_F(FetchingStoreTest, FetchesOnlyTheSlicesThatAreMissing) {
  Make();
  ASSERT_TRUE(InstallGenerated(*records_, kKey, {1, 1}).ok());
  ExpectGood(kKey, kAll);
  EXPECT_EQ(source_->num_slices_read(), 2);
  fetching_->WaitForInstalls();
  EXPECT_TRUE(records_->Holds(kKey, kAll));
}

TEST_F(FetchingStoreTest, FetchesAnExpertOnceHoweverManyWaitForIt) {
  Make();
  source_->Hold();
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([this] { ExpectGood(kKey, kAll); });
  }
  source_->WaitForReads(1);
  source_->Open();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(source_->num_reads(), 1);
}

TEST_F(FetchingStoreTest, ServesWhatDoesNotFitIntoTheQuota) {
  RecordStoreOptions options = SmallReserve();
  options.quota_bytes = kRaggedShape.payload_bytes();
  Make(options);
  for (int turn = 0; turn < 2; ++turn) {
    for (int e = 0; e < 3; ++e) {
      ExpectGood({1, e}, kAll);
      fetching_->WaitForInstalls();
    }
  }
  EXPECT_EQ(source_->num_reads(), 5);
  EXPECT_EQ(records_->stats().complete_experts, 1u);
  EXPECT_EQ(fetching_->stats().runs_not_installed, 4u);
  records_->SetQuota(RecordStoreOptions::kNoQuota);
  ExpectGood({1, 1}, kAll);
  fetching_->WaitForInstalls();
  EXPECT_TRUE(records_->Holds({1, 1}, kAll));
}

TEST_F(FetchingStoreTest, PassesTheErrorOfTheSourceOnAndTriesAgainLater) {
  Make();
  std::atomic<bool> down = true;
  source_->set_failure([&](ExpertKey) {
    return down ? absl::UnavailableError("no route") : absl::OkStatus();
  });
  const ReadResult got = ReadRun(*fetching_, kKey, kAll);
  EXPECT_TRUE(absl::IsUnavailable(got.bytes.status())) << got.bytes.status();
  down = false;
  ExpectGood(kKey, kAll);
}

TEST_F(FetchingStoreTest, InstallsWhatIsQueuedBeforeItEnds) {
  Make();
  for (int e = 0; e < 8; ++e) ExpectGood({3, e}, kAll);
  fetching_.reset();
  EXPECT_EQ(records_->stats().complete_experts, 8u);
}

// What one reader removes another fetches: every read ends with good bytes.
TEST_F(FetchingStoreTest, ServesReadersWhileExpertsAreRemoved) {
  Make();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 30; ++i) ExpectGood({1, (i + t) % 2}, {t, 3 - t});
    });
  }
  threads.emplace_back([this] {
    for (int i = 0; i < 30; ++i) {
      const absl::Status gone = records_->Remove({1, i % 2}, {i % 3, 1});
      EXPECT_TRUE(gone.ok()) << gone;
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(records_->stats().corrupt_slices, 0u);
}

}  // namespace
}  // namespace deltafin
