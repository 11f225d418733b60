#include "expert_node/storage/staged_source.h"

#include <thread>

#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

constexpr ExpertShape kShape = kRaggedShape;
constexpr ExpertKey kKey = {2, 3};
constexpr uint64_t kPlenty = uint64_t{1} << 30;

class StagedSourceTest : public ::testing::Test {
 protected:
  using Given = StagedSource::Given;
  void Make(uint64_t capacity, Given given = Given::kForgotten) {
    auto source = std::make_unique<GeneratedStore>(kShape);
    source_ = source.get();
    staged_ =
        std::make_unique<StagedSource>(std::move(source), capacity, given);
  }
  void ExpectGood(ExpertStore& store, ExpertKey key, SliceRun run) {
    const ReadResult got = ReadRun(store, key, run);
    ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
    EXPECT_TRUE(got.ready == PackedSlices(kShape, key, run));
  }

  GeneratedStore* source_ = nullptr;
  std::unique_ptr<StagedSource> staged_;
};

TEST_F(StagedSourceTest, FetchesAnExpertOnceForAllWhoKeepPartsOfIt) {
  Make(kPlenty);
  for (const SliceRun run : {SliceRun{1, 1}, SliceRun{0, 1}, SliceRun{2, 1}}) {
    ExpectGood(*staged_, kKey, run);
  }
  EXPECT_EQ(source_->num_reads(), 1);
  EXPECT_EQ(staged_->HeldMask(kKey), 0u);
  EXPECT_EQ(staged_->stats().staged_bytes, 0u);
  EXPECT_EQ(staged_->stats().slices_discarded, 0u);
}

TEST_F(StagedSourceTest, WhatWaitsIsGivenAwayWithoutTheSource) {
  Make(kPlenty);
  const ReadResult before = ReadRun(staged_->held(), kKey, {0, 1});
  EXPECT_TRUE(absl::IsNotFound(before.bytes.status()));
  EXPECT_EQ(source_->num_reads(), 0);
  ExpectGood(*staged_, kKey, {1, 1});
  EXPECT_EQ(staged_->HeldMask(kKey), 0b101u);
  const uint64_t version = staged_->held_version();
  ExpectGood(staged_->held(), kKey, {0, 1});
  EXPECT_EQ(staged_->HeldMask(kKey), 0b100u);
  EXPECT_GT(staged_->held_version(), version);
  const ReadResult again = ReadRun(staged_->held(), kKey, {0, 1});
  EXPECT_TRUE(absl::IsNotFound(again.bytes.status())) << again.bytes.status();
  EXPECT_EQ(source_->num_reads(), 1);
}

TEST_F(StagedSourceTest, TheOldestGivesWayToTheBoundAndIsFetchedAgain) {
  Make(2 * kShape.payload_bytes());
  for (int e = 0; e < 3; ++e) ExpectGood(*staged_, {1, e}, {0, 1});
  EXPECT_EQ(staged_->HeldMask({1, 0}), 0u);
  EXPECT_EQ(staged_->HeldMask({1, 1}), 0b110u);
  EXPECT_EQ(staged_->HeldMask({1, 2}), 0b110u);
  EXPECT_EQ(staged_->stats().slices_discarded, 2u);
  EXPECT_LE(staged_->stats().staged_bytes, 2 * kShape.payload_bytes());
  ExpectGood(*staged_, {1, 0}, {1, 2});
  EXPECT_EQ(source_->num_reads(), 4);
}

TEST_F(StagedSourceTest, WhatItKeepsThoughItWasGivenIsFetchedOnce) {
  Make(2 * kShape.payload_bytes(), Given::kKept);
  for (int i = 0; i < 2; ++i) {
    ExpectGood(*staged_, {1, 0}, {0, 3});
    ExpectGood(*staged_, {1, 1}, {1, 1});
  }
  EXPECT_EQ(source_->num_reads(), 2);
  ExpectGood(*staged_, {1, 2}, {0, 1});
  EXPECT_LE(staged_->stats().staged_bytes, 2 * kShape.payload_bytes());
  EXPECT_EQ(staged_->HeldMask({1, 0}), 0u);
}

TEST_F(StagedSourceTest, KeepsOneExpertHoweverSmallTheBound) {
  Make(1);
  ExpectGood(*staged_, kKey, {0, 1});
  ExpectGood(*staged_, kKey, {1, 2});
  EXPECT_EQ(source_->num_reads(), 1);
}

TEST_F(StagedSourceTest, OthersWaitForTheOneThatFetches) {
  Make(kPlenty);
  source_->Hold();
  std::vector<std::thread> readers;
  for (int s = 0; s < 3; ++s) {
    readers.emplace_back([this, s] { ExpectGood(*staged_, kKey, {s, 1}); });
  }
  source_->WaitForReads(1);
  source_->Open();
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(source_->num_reads(), 1);
}

TEST_F(StagedSourceTest, AFailureIsTheReadersAndLeavesNothingBehind) {
  Make(kPlenty);
  int failures = 1;
  source_->set_failure([&failures](ExpertKey) {
    return failures-- > 0 ? absl::UnavailableError("no network")
                          : absl::OkStatus();
  });
  const ReadResult got = ReadRun(*staged_, kKey, {0, 1});
  EXPECT_TRUE(absl::IsUnavailable(got.bytes.status())) << got.bytes.status();
  EXPECT_EQ(staged_->HeldMask(kKey), 0u);
  ExpectGood(*staged_, kKey, {0, 1});
}

}  // namespace
}  // namespace deltafin
