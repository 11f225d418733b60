// The box itself: what its links do to plain TCP.
#include "tests/testing/lan_box.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"

namespace deltafin::testing {
namespace {

constexpr int kPort = 7000;

// One TCP connection from place 0 to place 1, ends at hand.
class TcpPair {
 public:
  explicit TcpPair(const LanBox& box) {
    const auto listener = box.space(1).Listen(box.host(1), kPort);
    EXPECT_TRUE(listener.ok()) << listener.status();
    const auto near = box.space(0).Connect(box.host(1), kPort);
    EXPECT_TRUE(near.ok()) << near.status();
    if (!listener.ok() || !near.ok()) return;
    near_ = *near;
    far_ = accept(*listener, nullptr, nullptr);
    close(*listener);
  }
  ~TcpPair() {
    close(near_);
    close(far_);
  }
  int near_end() const { return near_; }
  int far_end() const { return far_; }

  // A byte there and back.
  absl::Duration RoundTrip() const {
    char byte = 1;
    const absl::Time begin = absl::Now();
    EXPECT_EQ(send(near_, &byte, 1, 0), 1);
    EXPECT_EQ(recv(far_, &byte, 1, 0), 1);
    EXPECT_EQ(send(far_, &byte, 1, 0), 1);
    EXPECT_EQ(recv(near_, &byte, 1, 0), 1);
    return absl::Now() - begin;
  }

 private:
  int near_ = -1;
  int far_ = -1;
};

class LanBoxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status possible = LanBox::Possible();
    if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
  }
  static std::unique_ptr<LanBox> Box(LanProfile profile) {
    auto box = LanBox::Create(profile, 2);
    EXPECT_TRUE(box.ok()) << box.status();
    return *std::move(box);
  }
};

absl::Duration MedianRoundTrip(const TcpPair& pair) {
  std::vector<absl::Duration> trips;
  for (int i = 0; i < 101; ++i) trips.push_back(pair.RoundTrip());
  std::nth_element(trips.begin(), trips.begin() + 50, trips.end());
  return trips[50];
}

TEST_F(LanBoxTest, RoundTripsTakeNoLessThanTheLinksDelay) {
  for (const LanProfile profile :
       {LanProfile::kLan, LanProfile::kFast, LanProfile::kLoopback}) {
    const auto box = Box(profile);
    const TcpPair pair(*box);
    const absl::Duration median = MedianRoundTrip(pair);
    std::printf("%s: TCP round trip p50 %.1f us\n",
                LanProfileName(profile).c_str(),
                absl::ToDoubleMicroseconds(median));
    if (profile == LanProfile::kLan) {
      EXPECT_GE(median, absl::Microseconds(600));
    }
  }
}

TEST_F(LanBoxTest, MovesBulkDataNoFasterThanTheRate) {
  const auto box = Box(LanProfile::kLan);
  const TcpPair pair(*box);
  constexpr size_t kBytes = 32 << 20;
  const absl::Time begin = absl::Now();
  std::thread writer([&pair] {
    const std::vector<char> bytes(kBytes);
    size_t sent = 0;
    while (sent < kBytes) {
      const ssize_t n =
          send(pair.near_end(), bytes.data() + sent, kBytes - sent, 0);
      if (n <= 0) break;
      sent += static_cast<size_t>(n);
    }
  });
  std::vector<char> buffer(1 << 20);
  size_t received = 0;
  while (received < kBytes) {
    const ssize_t n = recv(pair.far_end(), buffer.data(), buffer.size(), 0);
    if (n <= 0) break;
    received += static_cast<size_t>(n);
  }
  writer.join();
  ASSERT_EQ(received, kBytes);
  const double bits_per_second =
      8.0 * kBytes / absl::ToDoubleSeconds(absl::Now() - begin);
  std::printf("lan: TCP bulk %.0f Mbit/s\n", bits_per_second / 1e6);
  EXPECT_LT(bits_per_second, 1.0e9);
}

TEST_F(LanBoxTest, APulledCableCarriesNothingUntilItIsBack) {
  for (const LanProfile profile : {LanProfile::kLan, LanProfile::kFast}) {
    const auto box = Box(profile);
    const TcpPair pair(*box);
    pair.RoundTrip();
    ASSERT_TRUE(box->Down(1).ok());
    char byte = 1;
    ASSERT_EQ(send(pair.near_end(), &byte, 1, 0), 1);
    absl::SleepFor(absl::Milliseconds(300));
    EXPECT_EQ(recv(pair.far_end(), &byte, 1, MSG_DONTWAIT), -1);
    ASSERT_TRUE(box->Up(1).ok());
    EXPECT_EQ(recv(pair.far_end(), &byte, 1, 0), 1);  // TCP sends it again
  }
}

TEST_F(LanBoxTest, LossAndReorderingHitPacketsAndTcpRepairsThem) {
  const auto box = Box(LanProfile::kLan);
  LanLink link;
  link.loss_percent = 10;
  link.reorder_percent = 10;
  const TcpPair pair(*box);
  ASSERT_TRUE(box->SetLink(1, link).ok());
  for (int i = 0; i < 40; ++i) pair.RoundTrip();
  const auto counters = box->Counters(1);
  ASSERT_TRUE(counters.ok()) << counters.status();
  EXPECT_GT(counters->lost, 0);
}

TEST_F(LanBoxTest, ProcessesRunInsideAndSignalsReachThem) {
  const auto box = Box(LanProfile::kFast);
  auto process = box->Start(1, {"/sbin/ip", "-br", "addr"});
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_EQ(*(*process)->Wait(absl::Seconds(10)), 0);
  EXPECT_NE((*process)->out().find("10.77.0.2"), std::string::npos)
      << (*process)->out();
  auto sleeper = box->Start(1, {"/bin/sleep", "60"});
  ASSERT_TRUE(sleeper.ok()) << sleeper.status();
  (*sleeper)->Signal(SIGKILL);
  EXPECT_EQ(*(*sleeper)->Wait(absl::Seconds(10)), -SIGKILL);
}

TEST_F(LanBoxTest, NamespacesGoWithTheBox) {
  std::string path;
  {
    const auto box = Box(LanProfile::kLoopback);
    path = box->space(0).path();
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace deltafin::testing
