#include "expert_node/request_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

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

// What runs next, by the numbers of its parts.
std::vector<int> TakeParts(RequestQueue& queue) {
  const RequestQueue::Turn turn = queue.Take();
  EXPECT_EQ(turn.task, Task::kRun);
  std::vector<int> parts;
  for (const auto& request : turn.requests) parts.push_back(request->work.part);
  return parts;
}

std::shared_ptr<QueuedRequest> TakeToRun(RequestQueue& queue) {
  const RequestQueue::Turn turn = queue.Take();
  EXPECT_EQ(turn.task, Task::kRun);
  EXPECT_EQ(turn.requests.size(), 1u);
  return turn.requests.at(0);
}

// A part that tells how many there are.
std::shared_ptr<QueuedRequest> Part(uint64_t step, int part, int num_parts,
                                    int num_tokens = 1) {
  auto request = Request(step, part);
  request->work.num_parts = num_parts;
  request->work.num_tokens = num_tokens;
  return request;
}

// Waits for announced parts for ever.
RequestQueueLimits PatientLimits() {
  RequestQueueLimits limits;
  limits.part_wait = absl::InfiniteDuration();
  return limits;
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

TEST(RequestQueueTest, PartsOfOneLayerThatWaitRunTogether) {
  RequestQueue queue({});
  Read(queue, Request(1, 9));
  TakeToRun(queue);
  Read(queue, Request(2, 0));
  Read(queue, Request(2, 2));
  Read(queue, Request(3, 7));
  Read(queue, Request(2, 1));
  queue.FinishRun();
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(queue.depth(), 4u);
  queue.FinishRun();
  EXPECT_EQ(TakeParts(queue), std::vector<int>{7});
}

TEST(RequestQueueTest, NoMoreTokensThanTheBoundRunTogether) {
  RequestQueueLimits limits;
  limits.max_run_tokens = 5;
  RequestQueue queue(limits);
  Read(queue, Part(1, 0, 0, 9));  // alone it may have more
  EXPECT_EQ(TakeParts(queue), std::vector<int>{0});
  for (int part = 1; part < 5; ++part) Read(queue, Part(1, part, 0, 2));
  queue.FinishRun();
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{1, 2}));
  queue.FinishRun();
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{3, 4}));
}

TEST(RequestQueueTest, WaitsForThePartsThatWereAnnounced) {
  RequestQueue queue(PatientLimits());
  for (const int part : {2, 0, 1}) Read(queue, Part(1, part, 3));
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{2, 0, 1}));
  queue.FinishRun();
  Read(queue, Part(1, 0, 3));  // the same layer again
  Read(queue, Part(1, 1, 3));
  EXPECT_EQ(queue.Take().task, Task::kRead);
}

TEST(RequestQueueTest, DoesNotWaitForPartsThatDoNotFit) {
  RequestQueueLimits limits = PatientLimits();
  limits.max_run_tokens = 5;
  RequestQueue queue(limits);
  for (int part = 0; part < 3; ++part) Read(queue, Part(1, part, 5, 2));
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{0, 1}));
  Read(queue, Part(1, 3, 5, 2));
  queue.FinishRun();
  Read(queue, Part(1, 4, 5, 1));
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{2, 3, 4}));
}

TEST(RequestQueueTest, CountsThePartsOfALayerThatHaveRun) {
  RequestQueueLimits limits = PatientLimits();
  limits.max_run_tokens = 4;
  RequestQueue queue(limits);
  Read(queue, Part(1, 0, 3, 2));
  Read(queue, Part(1, 1, 3, 2));
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{0, 1}));
  Read(queue, Part(1, 2, 3, 2));
  queue.FinishRun();
  EXPECT_EQ(TakeParts(queue), std::vector<int>{2});
}

TEST(RequestQueueTest, RunsWithoutPartsThatWillNotCome) {
  const std::function<void(RequestQueue&)> ends[] = {
      [](RequestQueue& queue) { Read(queue, Request(2)); },
      [](RequestQueue& queue) { queue.CancelStep(1, 1); },
      [](RequestQueue& queue) { queue.Close(CloseMode::kFinish); },
  };
  for (const auto& end : ends) {
    RequestQueue queue(PatientLimits());
    Read(queue, Part(1, 0, 3));
    Read(queue, Part(1, 1, 3));
    end(queue);
    EXPECT_EQ(TakeParts(queue), (std::vector<int>{0, 1}));
  }
}

TEST(RequestQueueTest, AFullQueueDoesNotWaitForParts) {
  RequestQueueLimits limits = PatientLimits();
  limits.max_requests = 2;
  RequestQueue queue(limits);
  Read(queue, Part(1, 0, 3));
  Read(queue, Part(1, 1, 3));
  EXPECT_EQ(TakeParts(queue), (std::vector<int>{0, 1}));
}

TEST(RequestQueueTest, AThreadThatWaitsForPartsRunsWhatIsThereInTheEnd) {
  RequestQueueLimits limits;
  limits.part_wait = absl::Milliseconds(1);
  RequestQueue queue(limits);
  ASSERT_EQ(queue.Take().task, Task::kRead);  // and nothing comes
  auto request = Part(1, 0, 3);
  request->arrival = absl::Now();
  queue.FinishRead(std::move(request));
  const auto work = [&] {
    const RequestQueue::Turn turn = queue.Take();
    if (turn.task == Task::kRun) {
      EXPECT_EQ(turn.requests.at(0)->work.part, 0);
      queue.Close(CloseMode::kFinish);
      queue.FinishRun();
      return 1;
    }
    return 0;  // it reads, for ever, or came after the end
  };
  int num_runs = 0;
  std::thread other([&] { num_runs = work(); });
  const int own_runs = work();
  other.join();
  EXPECT_EQ(num_runs + own_runs, 1);
}

TEST(RequestQueueTest, ALateCancellationEndsTheWaitOfTheOtherThread) {
  RequestQueue queue(PatientLimits());
  Read(queue, Part(1, 0, 2));
  ASSERT_EQ(queue.Take().task, Task::kRead);
  std::thread watcher(
      [&] { EXPECT_EQ(TakeParts(queue), std::vector<int>{0}); });
  EXPECT_EQ(queue.CancelStep(1, 1), 1);
  watcher.join();
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
        was_run.push_back(turn.requests.at(0)->work.step);
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
