#include "expert_node/slice_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/testing/manual_clock.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;

// A tenth of a second of its budget.
constexpr SliceQueue::Work kCopy = {100'000, 1'000'000};
constexpr absl::Duration kTimeOfCopy = absl::Milliseconds(100);

// Callers on threads of their own, and when each had its turn.
class SliceQueueTest : public ::testing::Test {
 protected:
  ~SliceQueueTest() override {
    for (std::thread& thread : threads_) thread.join();
  }

  // The one of this test, which outlives its callers.
  SliceQueue& MakeQueue(int at_once, int max_waiting) {
    return queue_.emplace(at_once, max_waiting, clock_);
  }

  // Returns once the caller waits, or has had its turn.
  void Ask(SliceQueue& queue, const SliceQueue::Work& work) {
    auto is_inside = std::make_shared<std::atomic<bool>>(false);
    threads_.emplace_back([this, is_inside, &queue, work,
                           caller = static_cast<int>(threads_.size())] {
      const absl::StatusOr<SliceQueue::Turn> turn =
          queue.Wait(work, [is_inside] {
            *is_inside = true;
            return false;
          });
      EXPECT_TRUE(turn.ok()) << turn.status();
      MutexLock lock(mutex_);
      callers_.push_back(caller);
      times_.push_back(clock_.Elapsed() - start_);
      had_turn_.NotifyAll();
    });
    while (!*is_inside) std::this_thread::yield();
  }
  void WaitForTurns(size_t count) {
    MutexLock lock(mutex_);
    while (callers_.size() < count) had_turn_.Wait(mutex_);
  }

  ManualClock clock_;
  const absl::Duration start_ = clock_.Elapsed();
  std::optional<SliceQueue> queue_;
  Mutex mutex_;
  CondVar had_turn_;
  std::vector<int> callers_ ABSL_GUARDED_BY(mutex_);
  std::vector<absl::Duration> times_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

TEST_F(SliceQueueTest, CopiesOfAllCallersTogetherKeepWithinTheBudget) {
  SliceQueue& queue = MakeQueue(/*at_once=*/8, /*max_waiting=*/8);
  for (int i = 0; i < 4; ++i) Ask(queue, kCopy);
  for (size_t turns = 1; turns <= 4; ++turns) {
    WaitForTurns(turns);
    clock_.Advance(kTimeOfCopy);
  }
  MutexLock lock(mutex_);
  EXPECT_THAT(callers_, ElementsAre(0, 1, 2, 3));  // as they came
  EXPECT_THAT(times_, ElementsAre(0 * kTimeOfCopy, 1 * kTimeOfCopy,
                                  2 * kTimeOfCopy, 3 * kTimeOfCopy));
}

TEST_F(SliceQueueTest, ATinyBudgetHoldsNobodyUpForLong) {
  SliceQueue& queue = MakeQueue(8, 8);
  Ask(queue, {64 << 10, 1});
  WaitForTurns(1);
  Ask(queue, kCopy);
  clock_.Advance(absl::Seconds(1));
  WaitForTurns(2);
}

TEST_F(SliceQueueTest, WithoutABudgetOnlyTheNumberAtOnceIsBounded) {
  SliceQueue& queue = MakeQueue(/*at_once=*/1, 8);
  std::optional<SliceQueue::Turn> turn(
      *queue.Wait({1 << 20, 0}, [] { return false; }));
  Ask(queue, {1 << 20, 0});
  Ask(queue, {1 << 20, 0});
  {
    MutexLock lock(mutex_);
    EXPECT_TRUE(callers_.empty());
  }
  turn.reset();
  WaitForTurns(2);
}

TEST_F(SliceQueueTest, WhoIsCancelledLeavesItsPlaceToTheNext) {
  SliceQueue& queue = MakeQueue(/*at_once=*/1, 8);
  std::optional<SliceQueue::Turn> turn(
      *queue.Wait(kCopy, [] { return false; }));
  bool is_cancelled = false;
  const absl::Status cancelled =
      queue
          .Wait(kCopy,
                [&is_cancelled] { return std::exchange(is_cancelled, true); })
          .status();
  EXPECT_TRUE(absl::IsCancelled(cancelled)) << cancelled;
  Ask(queue, kCopy);
  turn.reset();
  clock_.Advance(kTimeOfCopy);  // of the first alone
  WaitForTurns(1);
}

TEST_F(SliceQueueTest, RefusesWhomItHasNoPlaceFor) {
  SliceQueue& queue = MakeQueue(/*at_once=*/1, /*max_waiting=*/1);
  std::optional<SliceQueue::Turn> turn(*queue.Wait({}, [] { return false; }));
  Ask(queue, {});
  const absl::Status refused = queue.Wait({}, [] { return false; }).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  turn.reset();
  WaitForTurns(1);
}

}  // namespace
}  // namespace deltafin
