#include "expert_node/storage/drive_turns.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace deltafin {
namespace {

TEST(DriveTurnsTest, LetsNoMoreReadAtOnceThanThereAreTurns) {
  DriveTurns turns(3);
  constexpr int kThreads = 8, kReads = 300;
  std::atomic<int> under_way = 0, most = 0, done = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kReads; ++i) {
        const DriveTurns::Turn turn = turns.Take();
        const int now = ++under_way;
        int seen = most;
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::yield();
        --under_way;
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 3);
  EXPECT_EQ(done, kThreads * kReads);
}

TEST(DriveTurnsTest, GivesTheLastTurnToWhoWaitsForIt) {
  DriveTurns turns(2);
  std::optional<DriveTurns::Turn> first(turns.Take());
  const DriveTurns::Turn second = turns.Take();
  std::future<void> waiting =
      std::async(std::launch::async, [&] { turns.Take(); });
  first.reset();
  ASSERT_EQ(waiting.wait_for(std::chrono::minutes(1)),
            std::future_status::ready);
}

TEST(DriveTurnsTest, CountsThoseWhoWait) {
  DriveTurns turns(1);
  std::optional<DriveTurns::Turn> only(turns.Take());
  EXPECT_EQ(turns.num_waiting(), 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) threads.emplace_back([&] { turns.Take(); });
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (turns.num_waiting() < 2 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(turns.num_waiting(), 2);
  only.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns.num_waiting(), 0);
}

TEST(DriveTurnsTest, AMovedTurnIsGivenBackOnce) {
  DriveTurns turns(1);
  {
    DriveTurns::Turn turn = turns.Take();
    const DriveTurns::Turn moved = std::move(turn);
  }
  std::optional<DriveTurns::Turn> only(turns.Take());
  std::atomic<bool> taken = false;
  std::thread other([&] {
    const DriveTurns::Turn next = turns.Take();
    taken = true;
  });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_FALSE(taken) << "one turn was given out twice";
  only.reset();
  other.join();
  EXPECT_TRUE(taken);
}

}  // namespace
}  // namespace deltafin
