#include "coordinator/engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using testing::Engine;
using testing::FakeSpineOptions;
using ::testing::HasSubstr;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::TokenRecorder;

const std::vector<int32_t> kPrompt = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

TEST(SchedulerTest, GeneratesUpToTheAskedNumberOfTokens) {
  Engine engine;
  engine.Start();
  TokenRecorder recorder;
  engine.Submit(MakeRequest(kPrompt, 3), &recorder);
  const RequestResult& result = recorder.AwaitFinish();
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(result.usage.prompt_tokens, 11);
  EXPECT_EQ(result.usage.completion_tokens, 3);
  ASSERT_EQ(recorder.tokens().size(), 3u);
  EXPECT_EQ(recorder.tokens()[0].position, 11);
  EXPECT_EQ(recorder.tokens()[2].position, 13);
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_EQ(stats.steps, 3);
  EXPECT_EQ(stats.prefill_tokens, 11);
  EXPECT_EQ(stats.decode_tokens, 2);
  EXPECT_EQ(stats.max_tokens_in_step, 11);
  EXPECT_EQ(stats.requests_finished, 1);
  EXPECT_EQ(stats.forward.layers, 12);
}

TEST(SchedulerTest, PrefillChunkDoesNotShowInTheIds) {
  const std::vector<int32_t> ids = IdsAlone(MakeRequest(kPrompt, 8));
  for (const int chunk : {1, 2, 7, 11}) {
    SchedulerOptions options;
    options.prefill_chunk = chunk;
    Engine engine(options);
    engine.Start();
    TokenRecorder recorder;
    engine.Submit(MakeRequest(kPrompt, 8), &recorder);
    recorder.AwaitFinish();
    EXPECT_EQ(recorder.ids(), ids) << "chunk " << chunk;
    EXPECT_EQ(engine.scheduler.stats().steps, (11 + chunk - 1) / chunk + 7);
  }
}

GenerationRequest Sampled(std::vector<int32_t> prompt, int count) {
  GenerationRequest request = MakeRequest(std::move(prompt), count);
  request.sampling.temperature = 0.8f;
  request.sampling.top_p = 0.95f;
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.seed = 42;
  return request;
}

TEST(SchedulerTest, CompanionsThatJoinAndLeaveDoNotShowInTheIds) {
  for (const bool sampled : {false, true}) {
    const GenerationRequest request =
        sampled ? Sampled(kPrompt, 12) : MakeRequest(kPrompt, 12);
    const GenerationRequest companion = Sampled({1, 2}, 2);
    Engine engine;
    TokenRecorder recorder, joining[3];
    // One joins after each of the tokens 2, 4 and 6 and leaves two later.
    recorder.on_token = [&](size_t count) {
      if (count == 2 || count == 4 || count == 6) {
        engine.Submit(companion, &joining[count / 2 - 1]);
      }
      return SinkAction::kContinue;
    };
    engine.Submit(request, &recorder);
    engine.Start();
    recorder.AwaitFinish();
    EXPECT_EQ(recorder.ids(), IdsAlone(request));
    for (TokenRecorder& other : joining) {
      other.AwaitFinish();
      EXPECT_EQ(other.ids(), IdsAlone(companion));
    }
    const SchedulerStats stats = engine.scheduler.stats();
    EXPECT_EQ(stats.steps, 12);
    EXPECT_EQ(stats.steps_with_two_or_more, 6);
    EXPECT_EQ(stats.max_sequences_in_step, 2);
    EXPECT_EQ(stats.sequences_in_steps, 18);
  }
}

TEST(SchedulerTest, PromptsShareTheChunkInOrderOfArrival) {
  SchedulerOptions options;
  options.prefill_chunk = 8;
  Engine engine(options);
  TokenRecorder first, second;
  engine.Submit(MakeRequest({1, 2, 3, 4, 5}, 1), &first);
  engine.Submit(MakeRequest({6, 7, 8, 9, 10}, 1), &second);
  engine.Start();
  first.AwaitFinish();
  second.AwaitFinish();
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_EQ(stats.steps, 2);  // 5 + 3, then 2
  EXPECT_EQ(stats.max_tokens_in_step, 8);
  EXPECT_EQ(stats.steps_with_two_or_more, 1);
  EXPECT_EQ(second.ids(), IdsAlone(MakeRequest({6, 7, 8, 9, 10}, 1)));
}

TEST(SchedulerTest, EndOfMessageStopsUnlessIgnored) {
  for (const bool ignore : {false, true}) {
    Engine engine;
    engine.Start();
    GenerationRequest request = MakeRequest({1}, 3);
    request.ignore_eos = ignore;
    request.sampling.logit_bias = {{60, 100.0f}};
    TokenRecorder recorder;
    engine.Submit(request, &recorder);
    const RequestResult& result = recorder.AwaitFinish();
    if (ignore) {
      EXPECT_EQ(result.finish_reason, FinishReason::kLength);
      EXPECT_THAT(recorder.ids(), ElementsAre(60, 60, 60));
    } else {
      EXPECT_EQ(result.finish_reason, FinishReason::kStop);
      EXPECT_THAT(recorder.ids(), ElementsAre(60));
    }
  }
}

TEST(SchedulerTest, SinkStopsTheRequest) {
  Engine engine;
  engine.Start();
  TokenRecorder recorder;
  recorder.on_token = [](size_t count) {
    return count == 2 ? SinkAction::kStop : SinkAction::kContinue;
  };
  engine.Submit(MakeRequest({1}, 100), &recorder);
  EXPECT_EQ(recorder.AwaitFinish().finish_reason, FinishReason::kStopString);
  EXPECT_EQ(recorder.tokens().size(), 2u);
}

TEST(SchedulerTest, ContextBoundEndsTheSequence) {
  SchedulerOptions options;
  options.context_tokens = 13;
  Engine engine(options);
  engine.Start();
  TokenRecorder recorder, whole_context;
  engine.Submit(MakeRequest(kPrompt, 100), &recorder);
  EXPECT_EQ(recorder.AwaitFinish().finish_reason, FinishReason::kLength);
  EXPECT_EQ(recorder.tokens().size(), 2u);
  engine.Submit(MakeRequest(std::vector<int32_t>(13, 1), 100), &whole_context);
  EXPECT_EQ(whole_context.AwaitFinish().finish_reason, FinishReason::kLength);
  EXPECT_TRUE(whole_context.tokens().empty());
}

TEST(SchedulerTest, AllLogitsComeOncePerPositionWhateverTheChunk) {
  GenerationRequest request = MakeRequest({1, 2, 3, 4, 5}, 3);
  request.want_all_logits = true;
  std::vector<std::vector<float>> rows;
  for (const int chunk : {1, 2, 512}) {
    SchedulerOptions options;
    options.prefill_chunk = chunk;
    Engine engine(options);
    engine.Start();
    TokenRecorder recorder;
    engine.Submit(request, &recorder);
    recorder.AwaitFinish();
    EXPECT_THAT(recorder.logits_positions(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
    if (rows.empty()) rows = recorder.logits();
    EXPECT_EQ(recorder.logits(), rows);
    EXPECT_EQ(recorder.ids(), IdsAlone(MakeRequest({1, 2, 3, 4, 5}, 3)));
  }
}

TEST(SchedulerTest, EvaluationGivesTheRowsThatPredictThePrompt) {
  Engine engine;
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2, 3, 4}, 0);
  request.want_all_logits = true;
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  EXPECT_TRUE(recorder.AwaitFinish().status.ok());
  EXPECT_THAT(recorder.logits_positions(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(recorder.tokens().empty());
}

TEST(SchedulerTest, LogprobsDescribeTheModelsOwnDistribution) {
  Engine engine;
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2}, 2);
  request.want_logprobs = true;
  request.top_logprobs = 2;
  request.sampling.logit_bias = {{33, 100.0f}};
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  recorder.AwaitFinish();
  for (const TokenRecorder::Token& token : recorder.tokens()) {
    EXPECT_EQ(token.id, 33);
    ASSERT_EQ(token.top_logprobs.size(), 2u);
    EXPECT_GE(token.top_logprobs[0].logprob, token.top_logprobs[1].logprob);
    EXPECT_LE(token.logprob, token.top_logprobs[0].logprob);
    EXPECT_LT(token.top_logprobs[0].logprob, 0);
  }
}

TEST(SchedulerTest, WaitsUntilStateFitsAndRefusesWhatNeverFits) {
  SchedulerOptions options;
  options.sequence_bytes = 2500;  // 1000 + 10 a token: two short sequences
  Engine engine(options);
  TokenRecorder recorders[3];
  for (TokenRecorder& recorder : recorders) {
    engine.Submit(MakeRequest({1, 2, 3}, 4), &recorder);
  }
  TokenRecorder too_long;
  const auto refused =
      engine.scheduler.Submit(MakeRequest({1}, 200), &too_long);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("needs 3000 bytes of state, 2500"));
  engine.Start();
  for (TokenRecorder& recorder : recorders) {
    EXPECT_TRUE(recorder.AwaitFinish().status.ok());
  }
  EXPECT_EQ(engine.scheduler.stats().max_sequences_in_step, 2);
  EXPECT_EQ(too_long.num_finishes(), 0);
}

TEST(SchedulerTest, WaitsWhereTheSpineHasNoRoomForAnotherSequence) {
  FakeSpineOptions spine;
  spine.max_sequences = 1;
  Engine engine({}, spine);
  TokenRecorder recorders[3];
  for (TokenRecorder& recorder : recorders) {
    engine.Submit(MakeRequest({1, 2, 3}, 4), &recorder);
  }
  engine.Start();
  for (TokenRecorder& recorder : recorders) {
    EXPECT_TRUE(recorder.AwaitFinish().status.ok());
  }
  EXPECT_EQ(engine.scheduler.stats().max_sequences_in_step, 1);
}

TEST(SchedulerTest, RefusesBadRequestsByName) {
  SchedulerOptions options;
  options.context_tokens = 4;
  Engine engine(options);
  TokenRecorder recorder;
  const auto expect_refused = [&](const GenerationRequest& request,
                                  const char* why) {
    const auto id = engine.scheduler.Submit(request, &recorder);
    EXPECT_EQ(id.status().code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(id.status().message()), HasSubstr(why));
  };
  expect_refused(MakeRequest({}, 1), "prompt is empty");
  expect_refused(MakeRequest({1, 61}, 1), "prompt id 61 at position 1");
  expect_refused(MakeRequest({-1}, 1), "prompt id -1 at position 0");
  expect_refused(MakeRequest({1, 1, 1, 1, 1}, 1),
                 "5 tokens, the context bound is 4");
  expect_refused(MakeRequest({1}, -1), "max_new_tokens is -1");
  GenerationRequest request = MakeRequest({1}, 1);
  request.top_logprobs = 21;
  expect_refused(request, "top_logprobs is 21");
  request = MakeRequest({1}, 1);
  request.sampling.top_p = 2;
  expect_refused(request, "top_p");
  EXPECT_EQ(recorder.num_finishes(), 0);
}

TEST(SchedulerTest, RefusesBeyondTheQueueBound) {
  SchedulerOptions options;
  options.max_queued = 1;
  Engine engine(options);
  TokenRecorder recorder, refused;
  engine.Submit(MakeRequest({1}, 1), &recorder);
  const auto id = engine.scheduler.Submit(MakeRequest({1}, 1), &refused);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kResourceExhausted);
  engine.Start();
  EXPECT_TRUE(recorder.AwaitFinish().status.ok());
}

TEST(SchedulerTest, RefusesOptionsThatCannotWork) {
  SchedulerOptions options;
  options.prefill_chunk = 0;
  Engine engine(options);
  EXPECT_THAT(std::string(engine.scheduler.Start().message()),
              HasSubstr("prefill_chunk is 0"));
}

}  // namespace
}  // namespace deltafin
