#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "coordinator/engine/scheduler.h"
#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using testing::Engine;
using testing::FakeSpineOptions;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::TokenRecorder;

FakeSpineOptions Poisoned() {
  FakeSpineOptions options;
  options.poison_id = 13;
  return options;
}

TEST(SchedulerFailureTest, ErrorOfOneSequenceEndsThatOneAlone) {
  Engine engine({}, Poisoned());
  TokenRecorder innocent, culprit, bystander;
  GenerationRequest request = MakeRequest({1, 2, 3}, 10);
  request.want_all_logits = true;
  request.sampling.logit_bias = {{13, -100.0f}};
  // The culprit joins when three tokens are out.
  innocent.on_token = [&](size_t count) {
    if (count == 3) engine.Submit(MakeRequest({4, 13}, 5), &culprit);
    return SinkAction::kContinue;
  };
  GenerationRequest other = MakeRequest({7}, 9);
  other.sampling.logit_bias = {{13, -100.0f}};
  engine.Submit(request, &innocent);
  engine.Submit(other, &bystander);
  engine.Start();
  EXPECT_EQ(culprit.AwaitFinish().status,
            absl::OutOfRangeError("layer 3 attention: not finite"));
  EXPECT_TRUE(innocent.AwaitFinish().status.ok());
  EXPECT_TRUE(bystander.AwaitFinish().status.ok());
  EXPECT_EQ(innocent.ids(), IdsAlone(request));
  EXPECT_EQ(bystander.ids(), IdsAlone(other));
  EXPECT_THAT(innocent.logits_positions(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_EQ(culprit.num_finishes(), 1);
  engine.scheduler.Shutdown();
  EXPECT_EQ(engine.spine.num_sequences(), 0);
  EXPECT_EQ(engine.spine.steps_abandoned(), 2);  // shared, then alone
}

TEST(SchedulerFailureTest, LostNodeEndsEveryRequestOfTheStepAndNoLaterOne) {
  Engine engine;
  engine.experts.before_answer = [](uint64_t step, int layer) {
    return step == 1 && layer == 2
               ? absl::UnavailableError("layer 2 expert 7: node b: lost")
               : absl::OkStatus();
  };
  TokenRecorder first, second, later;
  engine.Submit(MakeRequest({1}, 5), &first);
  engine.Submit(MakeRequest({2}, 5), &second);
  engine.Start();
  EXPECT_EQ(first.AwaitFinish().status,
            absl::UnavailableError("layer 2 expert 7: node b: lost"));
  EXPECT_EQ(second.AwaitFinish().status, first.AwaitFinish().status);
  engine.Submit(MakeRequest({1}, 5), &later);
  EXPECT_TRUE(later.AwaitFinish().status.ok());
  EXPECT_EQ(later.ids(), IdsAlone(MakeRequest({1}, 5)));
}

TEST(SchedulerFailureTest, CancelInMidPrefillAbandonsTheStepAtOnce) {
  Engine engine;
  engine.experts.Hold();
  engine.Start();
  TokenRecorder recorder;
  const RequestId id = engine.Submit(MakeRequest({1, 2, 3}, 5), &recorder);
  engine.experts.AwaitHeld();
  engine.scheduler.Cancel(id);
  EXPECT_EQ(recorder.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
  engine.scheduler.Shutdown();
  EXPECT_EQ(engine.experts.steps_abandoned(), 1);
  EXPECT_EQ(engine.experts.layers_started(), 1);  // stopped in the first
  EXPECT_EQ(engine.spine.num_sequences(), 0);
}

TEST(SchedulerFailureTest, CancelledRequestLeavesItsCompanionsUntouched) {
  Engine engine;
  engine.experts.Hold();
  TokenRecorder cancelled, companion;
  const RequestId id = engine.Submit(MakeRequest({1, 2, 3}, 5), &cancelled);
  engine.Submit(MakeRequest({4, 5}, 5), &companion);
  engine.Start();
  engine.experts.AwaitHeld();
  engine.scheduler.Cancel(id);
  // Hears of it while the shared step is still held.
  EXPECT_EQ(cancelled.AwaitFinish().status.code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(companion.num_finishes(), 0);
  engine.experts.Release();
  EXPECT_TRUE(companion.AwaitFinish().status.ok());
  EXPECT_EQ(companion.ids(), IdsAlone(MakeRequest({4, 5}, 5)));
  EXPECT_TRUE(cancelled.tokens().empty());
  EXPECT_EQ(engine.experts.steps_abandoned(), 0);
}

TEST(SchedulerFailureTest, WaitingRequestIsCancelledWhileAStepRuns) {
  SchedulerOptions options;
  options.max_sequences = 1;
  Engine engine(options);
  engine.experts.Hold();
  engine.Start();
  TokenRecorder running, waiting;
  engine.Submit(MakeRequest({1}, 2), &running);
  engine.experts.AwaitHeld();
  const RequestId id = engine.Submit(MakeRequest({2}, 2), &waiting);
  engine.scheduler.Cancel(id);
  EXPECT_EQ(waiting.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
  engine.experts.Release();
  EXPECT_TRUE(running.AwaitFinish().status.ok());
}

TEST(SchedulerFailureTest, DeadlineEndsARequestWithinTheStep) {
  Engine engine;
  engine.experts.Hold();
  engine.Start();
  TokenRecorder recorder;
  GenerationRequest request = MakeRequest({1}, 5);
  request.deadline = absl::Now() + absl::Milliseconds(20);
  engine.Submit(request, &recorder);
  EXPECT_EQ(recorder.AwaitFinish().status.code(),
            absl::StatusCode::kDeadlineExceeded);
  engine.scheduler.Shutdown();
  EXPECT_LE(engine.experts.layers_started(), 1);
}

TEST(SchedulerFailureTest, ShutdownEndsLiveAndWaitingRequests) {
  SchedulerOptions options;
  options.max_sequences = 1;
  Engine engine(options);
  engine.experts.Hold();
  engine.Start();
  TokenRecorder live, waiting, late;
  engine.Submit(MakeRequest({1}, 2), &live);
  engine.experts.AwaitHeld();
  engine.Submit(MakeRequest({2}, 2), &waiting);
  engine.scheduler.Shutdown();
  engine.scheduler.Shutdown();
  EXPECT_EQ(live.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(waiting.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(live.num_finishes(), 1);
  EXPECT_EQ(waiting.num_finishes(), 1);
  const auto id = engine.scheduler.Submit(MakeRequest({1}, 1), &late);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(late.num_finishes(), 0);
}

TEST(SchedulerFailureTest, ShutdownBeforeStartEndsWhatWaits) {
  TokenRecorder recorder;
  {
    Engine engine;
    engine.Submit(MakeRequest({1}, 2), &recorder);
  }
  EXPECT_EQ(recorder.AwaitFinish().status.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace deltafin
