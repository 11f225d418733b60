#include "expert_node/request_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace deltafin {
namespace {

using CloseMode = RequestQueue::CloseMode;

std::shared_ptr<QueuedRequest> Request(uint64_t step, int part = 0,
                                       size_t floats = 0) {
  auto request = std::make_shared<QueuedRequest>();
  request->work.epoch = 1;
  request->work.step = step;
  request->work.part = part;
  request->work.latent.resize(floats);
  return request;
}

TEST(RequestQueueTest, GivesRequestsInTheOrderOfTheirArrival) {
  RequestQueue queue({});
  for (int part = 0; part < 3; ++part) queue.Push(Request(1, part));
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(queue.Pop()->work.part, part);
  }
}

TEST(RequestQueueTest, CancelsWaitingAndRunningRequestsOfOneStepOnly) {
  RequestQueue queue({});
  for (const uint64_t step : {1, 1, 2}) queue.Push(Request(step));
  const auto running = queue.Pop();
  EXPECT_EQ(queue.CancelStep(1, 1), 2);
  EXPECT_TRUE(running->cancelled);
  EXPECT_TRUE(queue.Pop()->cancelled);
  EXPECT_FALSE(queue.Pop()->cancelled);
  EXPECT_EQ(queue.CancelStep(9, 2), 0);  // another epoch
}

TEST(RequestQueueTest, AFinishedQueueGivesWhatWaitsAndThenNothing) {
  RequestQueue queue({});
  queue.Push(Request(1));
  queue.Close(CloseMode::kFinish);
  EXPECT_FALSE(queue.Push(Request(2)));
  EXPECT_EQ(queue.Pop()->work.step, 1u);
  EXPECT_EQ(queue.Pop(), nullptr);
}

TEST(RequestQueueTest, ADroppedQueueForgetsWhatWaitsAndCancelsWhatRuns) {
  RequestQueue queue({});
  for (const uint64_t step : {1, 2, 3}) queue.Push(Request(step));
  const auto running = queue.Pop();
  EXPECT_EQ(queue.Close(CloseMode::kDrop), 2);
  EXPECT_TRUE(running->cancelled);
  EXPECT_EQ(queue.Pop(), nullptr);
}

TEST(RequestQueueTest, CountsWaitingAndRunningRequests) {
  RequestQueue queue({});
  queue.Push(Request(1));
  queue.Push(Request(2));
  EXPECT_EQ(queue.depth(), 2u);
  queue.Pop();
  EXPECT_EQ(queue.depth(), 2u);
  queue.Pop();
  EXPECT_EQ(queue.depth(), 1u);
}

TEST(RequestQueueTest, PushWaitsForRoomAtEitherLimit) {
  for (const RequestQueueLimits limits :
       {RequestQueueLimits{1, 1000}, RequestQueueLimits{10, 100}}) {
    RequestQueue queue(limits);
    queue.Push(Request(1, 0, 20));
    std::thread pusher([&queue] { queue.Push(Request(2, 0, 20)); });
    EXPECT_EQ(queue.Pop()->work.step, 1u);
    EXPECT_EQ(queue.Pop()->work.step, 2u);
    pusher.join();
  }
}

TEST(RequestQueueTest, ClosingReleasesAPushThatWaits) {
  RequestQueue queue({1, 1000});
  queue.Push(Request(1));
  std::thread pusher([&queue] { EXPECT_FALSE(queue.Push(Request(2))); });
  queue.Close(CloseMode::kDrop);
  pusher.join();
}

TEST(RequestQueueTest, TakesARequestOverTheByteLimitWhenItIsAlone) {
  RequestQueue queue({10, 100});
  EXPECT_TRUE(queue.Push(Request(1, 0, 1000)));
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
