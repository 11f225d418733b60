// How large the requests are that the drive gets.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "expert_node/storage/layer_records.h"
#include "tests/unit/expert_node/storage/played_drive.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;

constexpr ExpertShape kFullShape = {3584, 3072};
// Eight slices of the full model's size.
constexpr ExpertShape kEightSlices = {3584, 2048};
constexpr int kNumSlices = kEightSlices.num_slices();
constexpr int64_t kSliceBytes = kEightSlices.slice_offset(1);
constexpr int kExpert = 3;

TEST(RecordRequestTest, ReadsFourSlicesAtATimeWhileNobodyWaits) {
  EXPECT_EQ(LayerRecords::SlicesPerRead(kFullShape), 4);
  const auto next = [](SliceRun left) {
    return LayerRecords::NextRead(kFullShape, left, false);
  };
  EXPECT_EQ(next({0, 12}), (SliceRun{0, 4}));
  EXPECT_EQ(next({4, 8}), (SliceRun{4, 4}));
  EXPECT_EQ(next({7, 5}), (SliceRun{7, 4}));
  EXPECT_EQ(next({10, 2}), (SliceRun{10, 2}));
}

TEST(RecordRequestTest, ReadsAWholeExpertWhileOthersWait) {
  const auto next = [](SliceRun left) {
    return LayerRecords::NextRead(kFullShape, left, true);
  };
  EXPECT_EQ(next({0, 12}), (SliceRun{0, 12}));
  EXPECT_EQ(next({4, 8}), (SliceRun{4, 8}));
  EXPECT_EQ(next({11, 1}), (SliceRun{11, 1}));
}

TEST(RecordRequestTest, LetsOthersGetBetweenTheReadsOfALargerExpert) {
  constexpr ExpertShape kTwice = {3584, 6144};
  EXPECT_EQ(LayerRecords::NextRead(kTwice, {0, 24}, true), (SliceRun{0, 12}));
  EXPECT_EQ(LayerRecords::NextRead(kTwice, {12, 12}, true), (SliceRun{12, 12}));
}

// A layer whose reads take one turn after the other; it holds one expert.
class RecordTurnsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto layer = LayerRecords::Open(
        folder_.path(), {2, kEightSlices, 8, std::string(64, 'a')}, shared_);
    ASSERT_TRUE(layer.ok()) << layer.status();
    layer_ = *std::move(layer);
    want_ = PackedSlices(kEightSlices, {2, kExpert}, {0, kNumSlices});
    std::vector<const uint8_t*> slices;
    for (const auto& slice : want_) slices.push_back(slice.data());
    ASSERT_TRUE(
        layer_->Install(kExpert, {0, kNumSlices}, slices, std::nullopt).ok());
    PlayedDrive::TakeReads();
  }
  void TearDown() override { PlayedDrive::bad_offset = -1; }

  static RecordStoreOptions OneReadAtOnce() {
    RecordStoreOptions options = SmallReserve();
    options.reads_at_once = 1;
    return options;
  }

  // The whole expert, whose bytes are right where it returns OK.
  absl::Status Read() {
    auto memory = AlignedBuffer::Allocate(kSliceBytes * kNumSlices);
    if (!memory.ok()) return memory.status();
    std::vector<uint8_t*> out;
    for (int s = 0; s < kNumSlices; ++s) {
      out.push_back(memory->data() + kSliceBytes * s);
    }
    int num_ready = 0;
    const auto read = layer_->Read(kExpert, {0, kNumSlices}, out, [&](int s) {
      ++num_ready;
      EXPECT_TRUE(std::equal(want_[s].begin(), want_[s].end(), out[s]));
    });
    EXPECT_TRUE(!read.ok() || num_ready == kNumSlices);
    return read.status();
  }

  // Reads by `num_threads` that all wait for the drive before any begins.
  void ReadAtOnce(int num_threads, const std::function<void()>& read) {
    std::optional<DriveTurns::Turn> held(shared_.turns.Take());
    std::vector<std::thread> threads;
    for (int t = 0; t < num_threads; ++t) threads.emplace_back(read);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (shared_.turns.num_waiting() < num_threads &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(shared_.turns.num_waiting(), num_threads);
    held.reset();
    for (std::thread& thread : threads) thread.join();
  }

  const DiskFolder folder_;
  RecordShared shared_{folder_.path(), OneReadAtOnce()};
  std::unique_ptr<LayerRecords> layer_;
  Slices want_;
};

TEST_F(RecordTurnsTest, AReaderAloneAsksForFourSlicesAtATime) {
  EXPECT_TRUE(Read().ok());
  EXPECT_THAT(PlayedDrive::TakeReads(),
              ElementsAre(4 * kSliceBytes, 4 * kSliceBytes));
}

TEST_F(RecordTurnsTest, OnlyTheLastOfThoseWhoWaitAsksForLess) {
  ReadAtOnce(3, [this] { EXPECT_TRUE(Read().ok()); });
  EXPECT_THAT(PlayedDrive::TakeReads(),
              ElementsAre(8 * kSliceBytes, 8 * kSliceBytes, 4 * kSliceBytes,
                          4 * kSliceBytes));
}

// The one with the bad slice is dropped for all who read it.
TEST_F(RecordTurnsTest, FindsTheBadSliceOfAReadOfAWholeExpert) {
  PlayedDrive::bad_offset =
      static_cast<int64_t>(kEightSlices.stride_bytes()) * kExpert +
      5 * kSliceBytes + 4096;
  ReadAtOnce(2, [this] {
    const absl::Status status = Read();
    EXPECT_TRUE(absl::IsDataLoss(status) || absl::IsNotFound(status)) << status;
  });
  const std::vector<int64_t> reads = PlayedDrive::TakeReads();
  ASSERT_FALSE(reads.empty());
  EXPECT_EQ(reads[0], 8 * kSliceBytes);
  EXPECT_EQ(layer_->HeldMask(kExpert), 0xffu & ~(1u << 5));
  EXPECT_EQ(shared_.corrupt_slices, 1u);
}

}  // namespace
}  // namespace deltafin
