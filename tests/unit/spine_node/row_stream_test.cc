// Buffers filled and handed over by the readers, and what a drive may do.
#include "spine_node/row_stream.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/faulty_reads.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// True once `condition` holds; false if it does not within ten seconds.
template <typename Condition>
bool Comes(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class RowStreamTest : public ::testing::Test {
 protected:
  ~RowStreamTest() override { ClearFaults(); }

  // Writes a file of `bytes` and opens it.
  void AddFile(uint64_t bytes) {
    std::vector<uint8_t> payload(bytes);
    uint32_t seed = 77 + static_cast<uint32_t>(payloads_.size());
    for (uint8_t& byte : payload) {
      seed = seed * 1664525u + 1013904223u;
      byte = static_cast<uint8_t>(seed >> 24);
    }
    const SpineFileKey key = {bytes, {1, 2}, {3, payloads_.size()}};
    const std::string path = Path(static_cast<int>(payloads_.size()));
    ASSERT_TRUE(WriteSpineFile(path, key, threads_, payload).ok());
    auto file = SpineFile::Open(path, key);
    ASSERT_TRUE(file.ok()) << file.status();
    files_.push_back(*std::move(file));
    payloads_.push_back(std::move(payload));
  }

  void Start() {
    auto stream = RowStream::Start(std::move(files_));
    ASSERT_TRUE(stream.ok()) << stream.status();
    stream_ = *std::move(stream);
  }

  std::string Path(int index) const {
    return folder_.File("layer-0" + std::to_string(index) + ".spine");
  }

  bool Holds(const uint8_t* rows, int index) const {
    return std::equal(payloads_[index].begin(), payloads_[index].end(), rows);
  }

  // Acquires and compares every byte.
  ::testing::AssertionResult Arrives(int index) {
    const auto rows = stream_->Acquire(index);
    if (!rows.ok()) {
      return ::testing::AssertionFailure() << rows.status().ToString();
    }
    if (!Holds(*rows, index)) {
      return ::testing::AssertionFailure() << "other bytes";
    }
    return ::testing::AssertionSuccess();
  }

  // Whether so many bytes have been read in all.
  bool HaveRead(int64_t bytes) {
    return Comes(
        [&] { return (read_ += stream_->TakeCounts().bytes) >= bytes; });
  }

  TempDir folder_;
  ThreadPool threads_{1, "test"};
  std::vector<std::vector<uint8_t>> payloads_;
  std::vector<std::unique_ptr<SpineFile>> files_;
  std::unique_ptr<RowStream> stream_;
  int64_t read_ = 0;
};

TEST_F(RowStreamTest, EveryFileArrivesInEveryRound) {
  for (const int num_files : {1, 2, 3, 4, 7}) {
    payloads_.clear();
    for (int i = 0; i < num_files; ++i) AddFile(10000 + 4096 * i + 64);
    Start();
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < num_files; ++i) {
        ASSERT_TRUE(Arrives(i)) << i << " of " << num_files;
        stream_->Release();
      }
    }
  }
}

TEST_F(RowStreamTest, PiecesComeTogetherInTheirPlaces) {
  for (int i = 0; i < 3; ++i) AddFile(9 * kMiB + 64 * i);
  Start();
  EXPECT_EQ(stream_->buffer_bytes(), 2 * (9 * kMiB + 4096));
  for (const int i : {0, 1, 2, 0}) {
    ASSERT_TRUE(Arrives(i));
    stream_->Release();
  }
}

TEST_F(RowStreamTest, TheNextFileIsReadWhileOneIsHeldAndNoFurtherOne) {
  for (int i = 0; i < 3; ++i) AddFile(kMiB);
  Start();
  const int64_t opened = CountReads(Path(2));  // its header
  const auto rows = stream_->Acquire(0);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE(HaveRead(2 * kMiB));
  EXPECT_EQ(CountReads(Path(2)), opened);
  EXPECT_TRUE(Holds(*rows, 0));
  stream_->Release();
  ASSERT_TRUE(HaveRead(3 * kMiB));
  EXPECT_EQ(CountReads(Path(2)), opened + 1);
  // Both are there: nothing is read for them.
  const int64_t reads_of_1 = CountReads(Path(1));
  EXPECT_TRUE(Arrives(1));
  EXPECT_EQ(CountReads(Path(1)), reads_of_1);
}

TEST_F(RowStreamTest, TwoFilesAreReadOnce) {
  AddFile(kMiB);
  AddFile(kMiB);
  Start();
  for (int round = 0; round < 4; ++round) {
    for (const int i : {0, 1}) {
      ASSERT_TRUE(Arrives(i));
      stream_->Release();
    }
  }
  EXPECT_TRUE(HaveRead(2 * kMiB));
  EXPECT_EQ(read_, static_cast<int64_t>(2 * kMiB));
}

TEST_F(RowStreamTest, AnAbandonedRoundBeginsAgain) {
  for (int i = 0; i < 5; ++i) AddFile(5 * kMiB + 64 * i);
  Start();
  for (const int stop : {0, 1, 2, 3, 4, 3, 1}) {
    for (int i = 0; i <= stop; ++i) {
      ASSERT_TRUE(Arrives(i)) << i << " of " << stop;
      if (i < stop) stream_->Release();
    }
  }
}

TEST_F(RowStreamTest, IsTakenDownWhileItReads) {
  for (int i = 0; i < 3; ++i) AddFile(9 * kMiB);
  Start();
  stream_.reset();
}

TEST_F(RowStreamTest, AReadErrorNamesTheFileAndIsTriedAgain) {
  for (int i = 0; i < 3; ++i) AddFile(9 * kMiB);
  FailReadsAt(Path(1), 4096 + 5 * kMiB);
  Start();
  ASSERT_TRUE(Arrives(0));
  stream_->Release();
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto rows = stream_->Acquire(1);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(rows.status().message()),
                AllOf(HasSubstr(Path(1)), HasSubstr("Input/output error")));
  }
  EXPECT_TRUE(Arrives(0));  // the others are well
  ClearFaults();
  stream_->Release();
  EXPECT_TRUE(Arrives(1));
}

TEST_F(RowStreamTest, AnErrorThatPassedBeforeTheFileWasWantedDoesNotShow) {
  for (int i = 0; i < 3; ++i) AddFile(kMiB);
  FailReadsAt(Path(1), 4096);
  const int64_t before = CountReads(Path(1));
  Start();
  ASSERT_TRUE(Comes([&] { return CountReads(Path(1)) > before; }));
  ASSERT_TRUE(Arrives(0));
  ClearFaults();
  stream_->Release();
  EXPECT_TRUE(Arrives(1));
}

TEST_F(RowStreamTest, ATruncatedFileIsAnError) {
  for (int i = 0; i < 3; ++i) AddFile(9 * kMiB);
  std::filesystem::resize_file(Path(2), 4096 + 6 * kMiB);
  Start();
  ASSERT_TRUE(Arrives(0));
  const auto rows = stream_->Acquire(2);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(rows.status().message()),
              AllOf(HasSubstr(Path(2)), HasSubstr("ends at")));
}

TEST_F(RowStreamTest, AChangedByteNeverArrives) {
  for (int i = 0; i < 3; ++i) AddFile(5 * kMiB);
  EditFile(Path(1), 4096 + 4 * kMiB + 77, [](uint8_t& byte) { byte ^= 4; });
  Start();
  ASSERT_TRUE(Arrives(0));
  stream_->Release();
  const auto rows = stream_->Acquire(1);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(rows.status().message()),
              AllOf(HasSubstr(Path(1)), HasSubstr("payload digest differs")));
  EditFile(Path(1), 4096 + 4 * kMiB + 77, [](uint8_t& byte) { byte ^= 4; });
  EXPECT_TRUE(Arrives(1));
}

TEST_F(RowStreamTest, TimeIsCountedWhileSomethingIsRead) {
  for (int i = 0; i < 3; ++i) AddFile(kMiB);
  Start();
  ASSERT_TRUE(Arrives(0));
  double seconds = 0;
  ASSERT_TRUE(Comes([&] {
    const RowStream::Counts counts = stream_->TakeCounts();
    seconds += counts.seconds;
    return (read_ += counts.bytes) == static_cast<int64_t>(2 * kMiB);
  }));
  EXPECT_GT(seconds, 0);
  EXPECT_EQ(stream_->TakeCounts().seconds, 0);
}

}  // namespace
}  // namespace deltafin::testing
