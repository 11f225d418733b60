#include "common/base/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

TEST(MutexTest, KeepsThreadsApart) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        MutexLock lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(CondVarTest, WakesAWaiter) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  std::thread setter([&] {
    MutexLock lock(mutex);
    ready = true;
    changed.NotifyAll();
  });
  {
    MutexLock lock(mutex);
    while (!ready) {
      EXPECT_TRUE(changed.WaitUntil(mutex, absl::InfiniteFuture()));
    }
  }
  setter.join();
  EXPECT_TRUE(ready);
}

TEST(CondVarTest, SaysWhenTheDeadlinePassed) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(mutex);
  while (never.WaitUntil(mutex, absl::Now())) {
  }
}

}  // namespace
}  // namespace deltafin
