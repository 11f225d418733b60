#include "expert_node/request_queue.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace deltafin {
namespace {

using CloseMode = RequestQueue::CloseMode;
using Task = RequestQueue::Task;

std::shared_ptr<QueuedRequest> Request(uint64_t step, int part = 0,
                                       size_t floats = 0) {
  auto request = std::make_shared<QueuedRequest>();
  request->work.epoch = 1;
  request->work.step = step;
  request->work.part = part;
  request->work.latent.resize(floats);
  return request;
}

// Reads one request, as a thread of the stream does.
void Read(RequestQueue& queue, std::shared_ptr<QueuedRequest> request) {
  const RequestQueue::Turn turn = queue.Take();
  ASSERT_EQ(turn.task, Task::kRead);
  queue.FinishRead(std::move(request));
}

std::shared_ptr<QueuedRequest> TakeToRun(RequestQueue& queue) {
  const RequestQueue::Turn turn = queue.Take();
  EXPECT_EQ(turn.task, Task::kRun);
  return turn.request;
}

TEST(RequestQueueTest, WhoHasReadALoneRequestRunsIt) {
  RequestQueue queue({});
  Read(queue, Request(1));
  EXPECT_EQ(TakeToRun(queue)->work.step, 1u);
}

TEST(RequestQueueTest, ReadsOnWhileARequestRuns) {
  RequestQueue queue({});
  Read(queue, Request(1));
  TakeToRun(queue);
  Read(queue, Request(2));
  Read(queue, Request(3));
  EXPECT_EQ(queue.depth(), 3u);
  queue.FinishRun();
  EXPECT_EQ(TakeToRun(queue)->work.step, 2u);
  queue.FinishRun();
  EXPECT_EQ(TakeToRun(queue)->work.step, 3u);
  EXPECT_EQ(queue.depth(), 1u);
}

TEST(RequestQueueTest, CancelsWaitingAndRunningRequestsOfOneStepOnly) {
  RequestQueue queue({});
  Read(queue, Request(1));
  const auto running = TakeToRun(queue);
  Read(queue, Request(1));
  Read(queue, Request(2));
  EXPECT_EQ(queue.CancelStep(1, 1), 2);
  EXPECT_EQ(queue.CancelStep(9, 2), 0);  // another epoch
  EXPECT_TRUE(running->cancelled);
  queue.FinishRun();
  EXPECT_TRUE(TakeToRun(queue)->cancelled);
  queue.FinishRun();
  EXPECT_FALSE(TakeToRun(queue)->cancelled);
}

TEST(RequestQueueTest, AFinishedQueueGivesWhatWaitsAndThenEnds) {
  RequestQueue queue({});
  Read(queue, Request(1));
  TakeToRun(queue);
  Read(queue, Request(2));
  ASSERT_EQ(queue.Take().task, Task::kRead);
  EXPECT_EQ(queue.Close(CloseMode::kFinish), 0);
  queue.FinishRead(nullptr);
  queue.FinishRun();
  EXPECT_EQ(TakeToRun(queue)->work.step, 2u);
  EXPECT_EQ(queue.Take().task, Task::kEnd);  // for the other thread, already
  queue.FinishRun();
  EXPECT_EQ(queue.Take().task, Task::kEnd);
}

TEST(RequestQueueTest, ADroppedQueueForgetsWhatWaitsAndCancelsWhatRuns) {
  RequestQueue queue({});
  Read(queue, Request(1));
  const auto running = TakeToRun(queue);
  Read(queue, Request(2));
  Read(queue, Request(3));
  ASSERT_EQ(queue.Take().task, Task::kRead);
  EXPECT_EQ(queue.Close(CloseMode::kDrop), 2);
  EXPECT_TRUE(running->cancelled);
  queue.FinishRead(Request(4));  // came too late
  queue.FinishRun();
  EXPECT_EQ(queue.Take().task, Task::kEnd);
  EXPECT_EQ(queue.depth(), 0u);
}

TEST(RequestQueueTest, DoesNotReadWhileTheQueueIsAtALimit) {
  for (const RequestQueueLimits limits :
       {RequestQueueLimits{1, 1000}, RequestQueueLimits{10, 80}}) {
    RequestQueue queue(limits);
    Read(queue, Request(1));
    TakeToRun(queue);
    Read(queue, Request(2, 0, 20));
    std::thread other([&] { EXPECT_EQ(queue.Take().task, Task::kEnd); });
    queue.Close(CloseMode::kDrop);
    other.join();
  }
}

TEST(RequestQueueTest, ReadsAgainWhenThereIsRoom) {
  RequestQueue queue({1, 1000});
  Read(queue, Request(1));
  TakeToRun(queue);
  Read(queue, Request(2));
  queue.FinishRun();
  TakeToRun(queue);
  EXPECT_EQ(queue.Take().task, Task::kRead);
}

TEST(RequestQueueTest, TheEndOfTheStreamReleasesAThreadThatWaits) {
  RequestQueue queue({});
  ASSERT_EQ(queue.Take().task, Task::kRead);
  std::thread other([&] { EXPECT_EQ(queue.Take().task, Task::kEnd); });
  queue.Close(CloseMode::kFinish);
  queue.FinishRead(nullptr);
  EXPECT_EQ(queue.Take().task, Task::kEnd);
  other.join();
}

TEST(RequestQueueTest, TwoThreadsRunEveryRequestOnceAndInOrder) {
  constexpr int kRequests = 2000;
  RequestQueue queue({4, 1000});
  int num_read = 0;               // by whoever reads
  std::vector<uint64_t> was_run;  // by whoever runs
  const auto work = [&] {
    while (true) {
      const RequestQueue::Turn turn = queue.Take();
      if (turn.task == Task::kEnd) return;
      if (turn.task == Task::kRun) {
        was_run.push_back(turn.request->work.step);
        queue.FinishRun();
      } else if (num_read == kRequests) {
        queue.Close(CloseMode::kFinish);
        queue.FinishRead(nullptr);
      } else {
        queue.FinishRead(Request(num_read++));
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  ASSERT_EQ(was_run.size(), size_t{kRequests});
  for (int i = 0; i < kRequests; ++i) EXPECT_EQ(was_run[i], uint64_t(i));
}

TEST(RequestGateTest, RefusesNewRequestsAndWaitsForOldOnes) {
  RequestGate gate;
  auto pass = gate.Enter();
  ASSERT_TRUE(pass.has_value());
  EXPECT_EQ(gate.num_inside(), 1);
  gate.Close();
  EXPECT_FALSE(gate.Enter().has_value());
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::InfinitePast()));
  std::thread leaver([&pass] { pass.reset(); });
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfiniteFuture()));
  leaver.join();
}

}  // namespace
}  // namespace deltafin
