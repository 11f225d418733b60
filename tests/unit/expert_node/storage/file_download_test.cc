#include "expert_node/storage/file_download.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "common/base/file_io.h"
#include "tests/testing/http_get.h"
#include "tests/unit/expert_node/storage/hub_test.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

class FileDownloadTest : public HubTest {
 protected:
  const SourceFile& large() const { return source_->files()[1]; }
  std::string target() const { return out_.File(kLarge); }

  void ExpectArrived() {
    const auto arrived = ReadFile(target(), kLargeBytes);
    ASSERT_TRUE(arrived.ok()) << arrived.status();
    EXPECT_TRUE(std::equal(
        arrived->begin(), arrived->end(), large_.begin(), large_.end(),
        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(out_.path()),
                            std::filesystem::directory_iterator()),
              1);
  }

  TempDir out_;
};

TEST_F(FileDownloadTest, BringsAFileInPiecesAndSaysHowFarItIs) {
  Start();
  DownloadOptions options;
  options.piece_bytes = 300000;
  std::vector<uint64_t> steps;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, kLargeBytes);
    steps.push_back(done);
  };
  ASSERT_TRUE(DownloadFile(*source_, large(), target(), options).ok());
  EXPECT_EQ(steps, (std::vector<uint64_t>{300000, 600000, 900000, 1048576}));
  ExpectArrived();
  const int requests = emulator_->num_cdn_requests();
  ASSERT_TRUE(DownloadFile(*source_, large(), target(), options).ok());
  EXPECT_EQ(emulator_->num_cdn_requests(), requests);
}

TEST_F(FileDownloadTest, GoesOnWhereItWasCancelled) {
  Start();
  DownloadOptions options;
  options.piece_bytes = 1 << 18;
  int pieces = 0;
  options.cancelled = [&] { return ++pieces > 2; };
  const absl::Status status =
      DownloadFile(*source_, large(), target(), options);
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(emulator_->num_cdn_requests(), 2);
  options.cancelled = nullptr;
  ASSERT_TRUE(DownloadFile(*source_, large(), target(), options).ok());
  EXPECT_EQ(emulator_->num_cdn_requests(), 4);
  ExpectArrived();
}

TEST_F(FileDownloadTest, FindsAFlippedBitAndStartsOver) {
  Start();
  Inject(FaultKind::kFlippedBit);
  const absl::Status status = DownloadFile(*source_, large(), target());
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("SHA-256"));
  EXPECT_TRUE(std::filesystem::is_empty(out_.path()));
  ASSERT_TRUE(DownloadFile(*source_, large(), target()).ok());
  ExpectArrived();
}

TEST_F(FileDownloadTest, RemovesPartsOfAnotherContent) {
  Start();
  const std::string other = target() + ".aaaaaaaaaaaa.part";
  ASSERT_TRUE(WriteFileAtomically(other, "old").ok());
  ASSERT_TRUE(WriteFileAtomically(target(), "short").ok());
  ASSERT_TRUE(DownloadFile(*source_, large(), target()).ok());
  ExpectArrived();
}

// Runs `body` in a process that ends with this one.
pid_t Fork(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(1);
}

uint64_t PartBytes(const std::string& folder) {
  uint64_t bytes = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    bytes = std::max<uint64_t>(bytes, entry.file_size(gone));
  }
  return bytes;
}

uint64_t BytesSent(const std::string& endpoint) {
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  const auto counts = testing::HttpGet(port, "/emulator/counts");
  constexpr char kField[] = "\"bytes_sent\": ";
  return std::stoull(counts->substr(counts->find(kField) + sizeof(kField) - 1));
}

TEST_F(FileDownloadTest, FetchesHardlyMoreAfterFiveKills) {
  constexpr uint64_t kBytes = 16 << 20;
  std::vector<uint8_t> want(kBytes);
  std::mt19937 random(11);
  for (uint8_t& byte : want) byte = static_cast<uint8_t>(random());
  const std::string name = "a.safetensors";
  std::ofstream(folder_.File(name), std::ios::binary)
      .write(reinterpret_cast<const char*>(want.data()), kBytes);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t emulator = Fork([&] {  // this process has no threads yet
    const auto started = HubEmulator::Start(emulator_options_);
    const std::string url = started.ok() ? (*started)->endpoint() : "";
    if (write(pipe_ends[1], url.data(), url.size()) > 0) pause();
  });
  char url[100] = {};
  ASSERT_GT(read(pipe_ends[0], url, sizeof(url) - 1), 0);
  options_.access.endpoint = url;
  const auto download = [&] {
    const auto source = HubSource::Create(options_);
    if (!source.ok()) return;
    if (DownloadFile(**source, (*source)->files()[0], out_.File(name)).ok()) {
      _exit(0);
    }
  };
  for (int kills = 0; kills < 5; ++kills) {
    const uint64_t at = PartBytes(out_.path()) + random() % (kBytes / 6);
    const pid_t child = Fork(download);
    while (PartBytes(out_.path()) < at &&
           waitpid(child, nullptr, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  int status = -1;
  waitpid(Fork(download), &status, 0);
  EXPECT_EQ(status, 0);
  const uint64_t sent = BytesSent(url);
  kill(emulator, SIGKILL);
  waitpid(emulator, nullptr, 0);
  EXPECT_GE(sent, kBytes);
  EXPECT_LE(static_cast<double>(sent), 1.02 * kBytes);
  const auto arrived = ReadFile(out_.File(name), kBytes);
  ASSERT_TRUE(arrived.ok()) << arrived.status();
  EXPECT_EQ(std::memcmp(arrived->data(), want.data(), kBytes), 0);
}

}  // namespace
}  // namespace deltafin
