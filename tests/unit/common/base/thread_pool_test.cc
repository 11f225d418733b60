#include "common/base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "common/base/thread_affinity.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEveryTaskOnce) {
  ThreadPool pool(GetParam(), "test-");
  EXPECT_EQ(pool.num_threads(), GetParam());
  for (const int64_t num_tasks : {0, 1, 2, 7, 1000}) {
    std::vector<int> runs(num_tasks, 0);
    pool.ParallelFor(num_tasks, [&](int64_t task, int worker) {
      ASSERT_GE(worker, 0);
      ASSERT_LT(worker, GetParam());
      ++runs[task];
    });
    EXPECT_EQ(runs, std::vector<int>(num_tasks, 1));
  }
}

TEST_P(ThreadPoolTest, ReturnsOnlyWhenAllIsVisible) {
  ThreadPool pool(GetParam(), "test-");
  std::vector<int64_t> values(64, 0);
  for (int64_t loop = 1; loop <= 2000; ++loop) {
    pool.ParallelFor(values.size(),
                     [&](int64_t task, int) { values[task] += task + loop; });
  }
  for (size_t task = 0; task < values.size(); ++task) {
    EXPECT_EQ(values[task], 2000 * static_cast<int64_t>(task) + 2001000);
  }
}

// Workers of one loop must never meet the body of the next.
TEST_P(ThreadPoolTest, KeepsLoopsApart) {
  ThreadPool pool(GetParam(), "test-");
  for (int loop = 0; loop < 2000; ++loop) {
    std::atomic<int64_t> sum{0};
    const int64_t num_tasks = 1 + loop % 5;
    pool.ParallelFor(num_tasks, [&sum, loop](int64_t task, int) {
      sum.fetch_add(loop * 10 + task, std::memory_order_relaxed);
    });
    EXPECT_EQ(sum.load(),
              num_tasks * loop * 10 + num_tasks * (num_tasks - 1) / 2);
  }
}

TEST_P(ThreadPoolTest, WakesWorkersThatSleep) {
  ThreadPool pool(GetParam(), "test-");
  for (int loop = 0; loop < 20; ++loop) {
    // Long enough for the workers to stop polling; correctness does not hang on
    // it.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::atomic<int> runs{0};
    pool.ParallelFor(100, [&](int64_t, int) { runs.fetch_add(1); });
    EXPECT_EQ(runs.load(), 100);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ThreadPoolTest, testing::Values(1, 2, 3, 7));

TEST(ThreadPoolStartTest, StopsWithoutHavingWorked) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4, "test-");
}

// Each task waits until all have begun, so every thread must take part.
TEST(ThreadPoolStartTest, WorksWithAllThreadsUnderTheirNames) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads, "pool-");
  std::atomic<int> begun{0};
  std::vector<std::string> names(kThreads);
  pool.ParallelFor(kThreads, [&](int64_t, int worker) {
    begun.fetch_add(1);
    while (begun.load() < kThreads) std::this_thread::yield();
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof(name));
    names[worker] = name;
  });
  for (int worker = 1; worker < kThreads; ++worker) {
    EXPECT_EQ(names[worker], "pool-" + std::to_string(worker));
  }
}

TEST(ThreadPoolStartTest, TakesTasksInAscendingOrder) {
  ThreadPool pool(1, "test-");
  std::vector<int64_t> order;
  pool.ParallelFor(5, [&](int64_t task, int) { order.push_back(task); });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

// The contract keeps subnormals (docs/numerics.md section 1), even where the
// caller's thread flushed them.
TEST(ThreadPoolStartTest, KeepsSubnormalsInEveryThread) {
#if defined(__x86_64__)
  const uint32_t before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flush to zero, denormals are zero
#endif
  ThreadPool pool(3, "test-");
  std::atomic<int> lost{0};
  pool.ParallelFor(1000, [&](int64_t, int) {
    volatile float smallest = std::numeric_limits<float>::min();
    volatile float half = smallest * 0.5f;
    if (half == 0.0f) lost.fetch_add(1);
  });
  EXPECT_EQ(lost.load(), 0);
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(before);
#endif
}

TEST(ThreadAffinityTest, CutsLongNames) {
  std::string shown(16, '\0');
  std::thread thread([&] {
    SetThreadName("a-name-beyond-fifteen-bytes");
    pthread_getname_np(pthread_self(), shown.data(), shown.size());
  });
  thread.join();
  EXPECT_STREQ(shown.c_str(), "a-name-beyond-f");
}

TEST(ThreadAffinityTest, KnowsTheAllowedCpus) {
  const std::vector<int> cpus = AllowedCpus();
  ASSERT_FALSE(cpus.empty());
  std::vector<int> seen;
  std::thread thread([&] {
    PinThreadToCpu(cpus.back());
    seen = AllowedCpus();
  });
  thread.join();
  EXPECT_EQ(seen, std::vector<int>{cpus.back()});
}

}  // namespace
}  // namespace deltafin
