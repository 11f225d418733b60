#include "common/base/direct_reader.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/file_io.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

uint8_t ByteAt(uint64_t offset) {
  return static_cast<uint8_t>((offset * 2654435761u) >> 13);
}

// A file whose size is no multiple of a page and larger than one request.
constexpr uint64_t kFileBytes = (uint64_t{5} << 20) + 1234;

class DirectReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string contents(kFileBytes, '\0');
    for (uint64_t i = 0; i < kFileBytes; ++i) {
      contents[i] = static_cast<char>(ByteAt(i));
    }
    ASSERT_TRUE(WriteFileAtomically(path(), contents).ok());
    auto reader = DirectReader::Open(path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
  }

  std::string path() const { return dir_.File("bytes"); }

  void ExpectRange(uint64_t offset, uint64_t bytes, AlignedBuffer& buffer) {
    const auto range = reader_->Read(offset, bytes, buffer);
    ASSERT_TRUE(range.ok()) << range.status();
    ASSERT_EQ(range->size(), bytes);
    for (uint64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ((*range)[i], ByteAt(offset + i)) << offset + i;
    }
  }

  TempDir dir_;
  std::unique_ptr<DirectReader> reader_;
};

TEST_F(DirectReaderTest, ReadsAnyRange) {
  AlignedBuffer buffer;
  ExpectRange(0, 1, buffer);
  ExpectRange(4095, 2, buffer);
  ExpectRange(8192, 4096, buffer);
  ExpectRange(12345, 2 << 20, buffer);
  ExpectRange(0, kFileBytes, buffer);
}

TEST_F(DirectReaderTest, ReadsUpToTheUnalignedEnd) {
  AlignedBuffer buffer;
  ExpectRange(kFileBytes - 1, 1, buffer);
  ExpectRange(kFileBytes - 5000, 5000, buffer);
  ExpectRange(kFileBytes, 0, buffer);
}

TEST_F(DirectReaderTest, KeepsABufferThatIsLargeEnough) {
  auto buffer = AlignedBuffer::Allocate(DirectReader::BufferBytes(10'000));
  ASSERT_TRUE(buffer.ok());
  const uint8_t* before = buffer->data();
  ExpectRange(4000, 10'000, *buffer);
  EXPECT_EQ(buffer->data(), before);
}

TEST_F(DirectReaderTest, RefusesRangesBeyondTheEnd) {
  AlignedBuffer buffer;
  for (const auto& [offset, bytes] :
       {std::pair<uint64_t, uint64_t>{kFileBytes - 1, 2},
        {kFileBytes + 1, 0},
        {1, ~uint64_t{0}}}) {
    const auto range = reader_->Read(offset, bytes, buffer);
    EXPECT_EQ(range.status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_NE(range.status().message().find(path().c_str()),
              absl::string_view::npos);
  }
}

TEST_F(DirectReaderTest, ServesSeveralThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      AlignedBuffer buffer;
      for (int i = 0; i < 10; ++i) {
        ExpectRange(t * 100'003 + i * 7919, 50'000, buffer);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DirectReaderTest, NoticesAFileThatShrank) {
  std::error_code error;
  std::filesystem::resize_file(path(), 1 << 20, error);
  ASSERT_FALSE(error);
  AlignedBuffer buffer;
  EXPECT_EQ(reader_->Read(0, 2 << 20, buffer).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST(DirectReaderOpenTest, NamesAMissingFile) {
  const auto reader = DirectReader::Open("/nowhere/shard");
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(reader.status().message().find("/nowhere/shard"),
            absl::string_view::npos);
}

// /proc holds regular files that take no direct reads.
TEST(DirectReaderOpenTest, ReadsBufferedWhereDirectReadsAreRefused) {
  const auto reader = DirectReader::Open("/proc/self/status");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_FALSE((*reader)->direct());
}

}  // namespace
}  // namespace deltafin
