// Files of 64 MiB and more, whose pieces are read several at once.

#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "expert_node/storage/file_download.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

constexpr uint64_t kBytes = (64 << 20) + 12345;
constexpr uint64_t kPiece = 8 << 20;
constexpr int kNumPieces = 9;  // the last one short
constexpr int kParallel = 3;

// One file whose bytes follow from their place. A group of kParallel reads
// ends only once all of it has begun, the last first.
class WaitingSource : public ModelSource {
 public:
  WaitingSource() {
    std::vector<uint8_t> all(kBytes);
    Fill(0, all);
    files_ = {{"a.safetensors", kBytes, Sha256Hex(all)}};
  }

  const std::string& name() const override { return name_; }
  const std::vector<SourceFile>& files() const override { return files_; }

  absl::Status Read(const std::string& /*file*/, uint64_t offset,
                    std::span<uint8_t> out) override {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      begun_.insert(offset);
      ++reads_[offset];
      changed_.notify_all();
      changed_.wait(lock, [&] { return !waits_ || IsTurn(offset); });
      ended_.insert(offset);
      changed_.notify_all();
    }
    if (offset == failing_) return absl::UnavailableError("a test's error");
    Fill(offset, out);
    return absl::OkStatus();
  }

  void set_waits(bool waits) { waits_ = waits; }
  void set_failing(uint64_t offset) { failing_ = offset; }
  const std::map<uint64_t, int>& reads() const { return reads_; }

 private:
  static void Fill(uint64_t offset, std::span<uint8_t> out) {
    for (size_t i = 0; i < out.size(); i += 8) {
      const uint64_t word = (offset + i) * 0x9E3779B97F4A7C15u;
      std::memcpy(&out[i], &word, std::min<size_t>(8, out.size() - i));
    }
  }
  // All of the group have begun, and those behind this one have ended.
  bool IsTurn(uint64_t offset) const {
    const uint64_t first = offset / kPiece / kParallel * kParallel;
    for (uint64_t i = first; i < first + kParallel && i < kNumPieces; ++i) {
      if (!begun_.contains(i * kPiece)) return false;
      if (i * kPiece > offset && !ended_.contains(i * kPiece)) return false;
    }
    return true;
  }

  const std::string name_ = "a test's source";
  std::vector<SourceFile> files_;
  bool waits_ = true;
  uint64_t failing_ = kBytes;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> begun_;
  std::set<uint64_t> ended_;
  std::map<uint64_t, int> reads_;
};

class ParallelDownloadTest : public ::testing::Test {
 protected:
  ParallelDownloadTest() {
    options_.piece_bytes = kPiece;
    options_.parallel = kParallel;
    options_.progress = [this](uint64_t done, uint64_t) {
      steps_.push_back(done);
    };
  }
  absl::Status Download() {
    return DownloadFile(source_, source_.files()[0], path_, options_);
  }

  const TempDir folder_;
  const std::string path_ = folder_.File("a.safetensors");
  WaitingSource source_;
  DownloadOptions options_;
  std::vector<uint64_t> steps_;
};

// It would wait forever if fewer than kParallel pieces were read at once. That
// the bytes are right is what the SHA-256 tells.
TEST_F(ParallelDownloadTest, WritesInOrderWhatArrivesInAnother) {
  const absl::Status status = Download();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::filesystem::file_size(path_), kBytes);
  EXPECT_EQ(steps_.size(), size_t{kNumPieces});
  EXPECT_TRUE(std::is_sorted(steps_.begin(), steps_.end()));
  for (const auto& [offset, count] : source_.reads()) {
    EXPECT_EQ(count, 1) << offset;
  }
}

TEST_F(ParallelDownloadTest, KeepsWhatCameBeforeAnErrorAndGoesOnFromThere) {
  source_.set_waits(false);
  source_.set_failing(4 * kPiece);
  EXPECT_TRUE(absl::IsUnavailable(Download()));
  EXPECT_EQ(steps_.back(), 4 * kPiece);
  EXPECT_FALSE(std::filesystem::exists(path_));
  source_.set_failing(kBytes);
  const absl::Status status = Download();
  ASSERT_TRUE(status.ok()) << status;
  for (const auto& [offset, count] : source_.reads()) {
    // Those that were under way beside the one that failed come again.
    EXPECT_LE(count, offset < 4 * kPiece ? 1 : 2) << offset;
  }
}

TEST_F(ParallelDownloadTest, EndsWithWhatIsUnderWayWhenItIsCancelled) {
  source_.set_waits(false);
  options_.cancelled = [this] { return steps_.size() == 2; };
  EXPECT_TRUE(absl::IsCancelled(Download()));
  EXPECT_LE(source_.reads().size(), size_t{2 + kParallel});
  options_.cancelled = nullptr;
  const absl::Status status = Download();
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace deltafin
