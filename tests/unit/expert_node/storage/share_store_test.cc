#include "expert_node/storage/share_store.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/expert_node/storage/fake_peers.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr ExpertShape kShape = kRaggedShape;
constexpr ExpertKey kKey = {2, 3};
constexpr SliceRun kAll = {0, 3};
const std::vector<std::string> kGood = {"good"};

class ShareStoreTest : public ::testing::Test {
 protected:
  enum class Source : uint8_t { kNone, kWhole };

  void Open(Source source = Source::kNone,
            uint64_t quota = RecordStoreOptions::kNoQuota) {
    share_.reset();
    ShareStoreOptions options;
    options.folder = folder_.path();
    options.records = SmallReserve();
    options.records.quota_bytes = quota;
    std::unique_ptr<GeneratedStore> experts;
    if (source == Source::kWhole) {
      experts = std::make_unique<GeneratedStore>(kShape);
      source_ = experts.get();
    }
    auto share = ShareStore::Open(RecordModelOf(kShape), options, peers_,
                                  std::move(experts));
    ASSERT_TRUE(share.ok()) << share.status();
    share_ = *std::move(share);
  }
  void ExpectGood(ExpertStore& store, ExpertKey key, SliceRun run) {
    const ReadResult got = ReadRun(store, key, run);
    ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
    EXPECT_TRUE(got.ready == PackedSlices(kShape, key, run));
  }
  void NobodyHasAnything() {
    peers_.set_owners([](ExpertKey, SliceRun run) {
      return std::vector<SlicePeers::OwnedRun>{{run, {}}};
    });
  }

  const DiskFolder folder_;
  FakePeers peers_{kShape};
  GeneratedStore* source_ = nullptr;
  std::unique_ptr<ShareStore> share_;
};

TEST_F(ShareStoreTest, CopiesARunToTheDriveAndOnceIsEnough) {
  Open();
  const auto bytes = share_->Copy(kKey, {1, 2}, kGood);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, kShape.payload_bytes() - kShape.slice_offset(1));
  EXPECT_EQ(share_->Copy(kKey, {1, 2}, kGood).value_or(9), 0u);
  EXPECT_EQ(share_->HeldMask(kKey), 0b110u);
  Open();
  EXPECT_EQ(share_->HeldMask(kKey), 0b110u);
  ExpectGood(share_->held(), kKey, {1, 2});
  EXPECT_THAT(peers_.reads(), ElementsAre("good 1+2"));
}

TEST_F(ShareStoreTest, CopiesOnlyWhatIsMissingOfARun) {
  Open();
  ASSERT_TRUE(share_->Copy(kKey, {1, 1}, kGood).ok());
  ASSERT_TRUE(share_->Copy(kKey, kAll, kGood).ok());
  EXPECT_THAT(peers_.reads(), ElementsAre("good 1+1", "good 0+1", "good 2+1"));
  EXPECT_TRUE(share_->records().Holds(kKey, kAll));
}

TEST_F(ShareStoreTest, ALayerDoesNotWaitForACopyThatWaitsForItsOwner) {
  Open();
  peers_.Hold("slow");
  std::thread copier([this] {
    const auto bytes =
        share_->Copy(kKey, {0, 2}, std::vector<std::string>{"slow"}, 1'000);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
  });
  peers_.WaitForReads(1);
  ExpectGood(*share_, kKey, kAll);
  share_->fetching().WaitForInstalls();
  EXPECT_EQ(share_->HeldMask(kKey), 0b111u);
  peers_.Open("slow");
  copier.join();
  EXPECT_EQ(share_->HeldMask(kKey), 0b111u);
  EXPECT_EQ(share_->records().stats().held_bytes, kShape.payload_bytes());
  ExpectGood(share_->held(), kKey, kAll);
  EXPECT_THAT(peers_.budgets(),
              ElementsAre(Optional(uint64_t{1'000}), std::nullopt));
}

TEST_F(ShareStoreTest, ACopyWhoseOwnersFailIsReadFromTheSourceOnce) {
  Open(Source::kWhole);
  source_->Hold();
  std::thread copier([this] {
    EXPECT_TRUE(share_->Copy(kKey, {0, 2}, {}).ok());
  });
  source_->WaitForReads(1);
  NobodyHasAnything();
  std::thread layer([this] { ExpectGood(*share_, kKey, {0, 2}); });
  source_->Open();
  copier.join();
  layer.join();
  EXPECT_EQ(source_->num_reads(), 1);
}

TEST_F(ShareStoreTest, AnAskedForSliceComesFromPeersAndIsKept) {
  Open(Source::kWhole);
  ExpectGood(*share_, kKey, {0, 2});
  share_->Copy(kKey, {0, 2}, kGood).IgnoreError();  // waits for the install
  EXPECT_EQ(share_->HeldMask(kKey), 0b011u);
  EXPECT_EQ(source_->num_reads(), 0);
}

TEST_F(ShareStoreTest, WhatPeersCannotGiveComesFromTheSource) {
  Open(Source::kWhole);
  peers_.Fail("good", absl::UnavailableError("gone"), /*after=*/1);
  ExpectGood(*share_, kKey, kAll);
  EXPECT_EQ(source_->num_reads(), 1);
  NobodyHasAnything();
  ExpectGood(*share_, {1, 1}, kAll);
  EXPECT_EQ(source_->num_reads(), 2);
}

TEST_F(ShareStoreTest, CopiesFromTheSourceWhatNoOwnerGives) {
  Open(Source::kWhole);
  peers_.Fail("good", absl::UnavailableError("gone"), /*after=*/1);
  const auto bytes = share_->Copy(kKey, kAll, kGood);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(*bytes, kShape.payload_bytes());
  EXPECT_EQ(source_->num_reads(), 1);
  ExpectGood(share_->records(), kKey, kAll);
}

TEST_F(ShareStoreTest, WithoutASourceTheErrorIsThatOfThePeers) {
  Open();
  NobodyHasAnything();
  EXPECT_TRUE(absl::IsNotFound(ReadRun(*share_, kKey, kAll).bytes.status()));
  EXPECT_TRUE(absl::IsNotFound(share_->Copy(kKey, kAll, {}).status()));
}

TEST_F(ShareStoreTest, FetchesAWholeExpertOnceAndHoldsTheRestForTheOthers) {
  Open(Source::kWhole);
  NobodyHasAnything();
  const uint64_t version = share_->held_version();
  ASSERT_TRUE(share_->Copy(kKey, {1, 1}, {}).ok());
  EXPECT_EQ(source_->num_reads(), 1);
  EXPECT_EQ(share_->records().HeldMask(kKey), 0b010u);
  EXPECT_EQ(share_->HeldMask(kKey), 0b111u);  // what the coordinator is told
  EXPECT_GT(share_->held_version(), version);
  ExpectGood(share_->held(), kKey, {1, 2});  // drive and memory
  ExpectGood(share_->held(), kKey, {0, 1});
  EXPECT_EQ(share_->HeldMask(kKey), 0b010u);
  EXPECT_EQ(source_->num_reads(), 1);
  EXPECT_TRUE(
      absl::IsNotFound(ReadRun(share_->held(), kKey, {0, 1}).bytes.status()));
}

TEST_F(ShareStoreTest, TellsWhenThereIsNoRoomAndFetchesNothingThen) {
  Open(Source::kNone, kShape.slice_offset(1));
  ASSERT_TRUE(share_->Copy(kKey, {0, 1}, kGood).ok());
  const absl::Status full = share_->Copy(kKey, {1, 1}, kGood).status();
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(peers_.reads(), ElementsAre("good 0+1"));
  ExpectGood(*share_, kKey, {1, 1});  // served all the same
}

TEST_F(ShareStoreTest, RefusesRunsOutsideTheModel) {
  Open();
  for (const SliceRun run : {SliceRun{0, 0}, SliceRun{-1, 1}, SliceRun{2, 2},
                             SliceRun{0, 1 << 20}, SliceRun{1 << 20, 1}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(share_->Copy(kKey, run, kGood).status()));
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(share_->Copy({0, 1}, kAll, kGood).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(share_->Copy({1, 8}, kAll, kGood).status()));
  EXPECT_THAT(peers_.reads(), IsEmpty());
}

}  // namespace
}  // namespace deltafin
