// Guessed tokens never show in what a request gives.
#include "coordinator/engine/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using testing::Engine;
using testing::FakeSpineOptions;
using testing::IdsAlone;
using testing::MakeRequest;
using testing::TokenRecorder;

using Ids = std::vector<int32_t>;

SchedulerOptions Forced() {
  SchedulerOptions options;
  options.speculation = SpeculationMode::kForce;
  return options;
}

// A request whose tokens repeat, so that guesses are sometimes right: three
// tokens are far more probable than all others.
GenerationRequest Repeating(Ids prompt, int count, float temperature = 0.7f) {
  GenerationRequest request = MakeRequest(std::move(prompt), count);
  request.sampling.temperature = temperature;
  request.sampling.logit_bias = {{5, 16.0f}, {6, 14.0f}, {7, 12.0f}};
  request.sampling.seed = 3;
  return request;
}

Ids Complete(Engine& engine, const GenerationRequest& request) {
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  const absl::Status status = recorder.AwaitFinish().status;
  EXPECT_TRUE(status.ok()) << status;
  return recorder.ids();
}

TEST(SpeculationTest, GuessesSaveStepsAndNotABit) {
  const GenerationRequest request = Repeating({1, 5, 6, 5, 5}, 60);
  Engine engine(Forced());
  engine.Start();
  EXPECT_EQ(Complete(engine, request), IdsAlone(request));
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_GT(stats.speculation.accepted, 10);
  EXPECT_LT(stats.speculation.accepted, stats.speculation.drafted);
  EXPECT_EQ(stats.steps, 60 - stats.speculation.accepted);
  EXPECT_EQ(stats.decode_tokens, 59);
  EXPECT_EQ(stats.prefill_tokens, 5);
  EXPECT_EQ(stats.max_tokens_in_step, 8);
}

TEST(SpeculationTest, PenaltiesAndGreedyChoicesDoNotShowIt) {
  for (const float temperature : {0.0f, 1.0f}) {
    GenerationRequest request = Repeating({5, 6, 5, 6}, 50, temperature);
    request.sampling.frequency_penalty = 0.3f;
    request.sampling.presence_penalty = 0.2f;
    request.sampling.repetition_penalty = 1.1f;
    request.want_logprobs = true;
    request.top_logprobs = 2;
    Engine engine(Forced());
    engine.Start();
    EXPECT_EQ(Complete(engine, request), IdsAlone(request)) << temperature;
    EXPECT_GT(engine.scheduler.stats().speculation.drafted, 0);
  }
}

TEST(SpeculationTest, CompanionsDoNotShowIt) {
  Engine engine(Forced());
  std::vector<GenerationRequest> requests;
  std::vector<TokenRecorder> recorders(5);
  for (int i = 0; i < 5; ++i) {
    requests.push_back(Repeating({i, 5, 6}, 20 + 5 * i, i == 2 ? 0 : 0.8f));
    if (i == 3) requests[i].speculation = SpeculationMode::kOff;
    engine.Submit(requests[i], &recorders[i]);
  }
  engine.Start();
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(recorders[i].AwaitFinish().status.ok());
    EXPECT_EQ(recorders[i].ids(), IdsAlone(requests[i])) << i;
  }
  EXPECT_GT(engine.scheduler.stats().speculation.accepted, 0);
}

TEST(SpeculationTest, EveryLengthAndEndIsTheSame) {
  for (int count = 1; count <= 12; ++count) {
    const GenerationRequest request = Repeating({5, 5, 5, 5}, count, 0.3f);
    Engine engine(Forced());
    engine.Start();
    EXPECT_EQ(Complete(engine, request), IdsAlone(request)) << count;
    EXPECT_EQ(engine.scheduler.stats().decode_tokens, count - 1);
  }
  // Token 7 ends the message, wherever it comes.
  FakeSpineOptions ends_early;
  ends_early.eos_token_id = 7;
  GenerationRequest request = Repeating({5, 6, 5, 6}, 200);
  request.ignore_eos = false;
  Engine plain({}, ends_early), forced(Forced(), ends_early);
  plain.Start();
  forced.Start();
  const Ids ids = Complete(plain, request);
  EXPECT_LT(std::ssize(ids), 200);
  EXPECT_EQ(ids.back(), 7);
  EXPECT_EQ(Complete(forced, request), ids);
}

TEST(SpeculationTest, ASinkThatStopsGetsNoFurtherToken) {
  for (size_t stop_at = 1; stop_at < 10; ++stop_at) {
    Engine engine(Forced());
    engine.Start();
    TokenRecorder recorder;
    recorder.on_token = [=](size_t count) {
      return count == stop_at ? SinkAction::kStop : SinkAction::kContinue;
    };
    engine.Submit(Repeating({5, 5, 5, 5}, 40, 0.2f), &recorder);
    EXPECT_EQ(recorder.AwaitFinish().finish_reason, FinishReason::kStopString);
    EXPECT_EQ(recorder.tokens().size(), stop_at);
  }
}

// What is retained of a request that guessed is as good as of one that did not.
TEST(SpeculationTest, StatesThatAreReusedAreExact) {
  SchedulerOptions options = Forced();
  options.retained_bytes = 1 << 20;
  Engine engine(options);
  engine.Start();
  Ids conversation = {5, 6, 5, 6};
  for (int turn = 0; turn < 6; ++turn) {
    const GenerationRequest request = Repeating(conversation, 9);
    const Ids reply = Complete(engine, request);
    EXPECT_EQ(reply, IdsAlone(request)) << turn;
    conversation.insert(conversation.end(), reply.begin(), reply.end());
    conversation.push_back(20 + turn);
  }
  EXPECT_EQ(engine.scheduler.stats().reuse.hits, 5);
  EXPECT_GT(engine.scheduler.stats().speculation.accepted, 0);
}

// Forbids what is even after a token that is even.
class Alternating : public TokenConstraint {
 public:
  absl::StatusOr<std::span<const uint64_t>> Allowed() override {
    words_[0] = last_ % 2 == 0 ? 0xaaaaaaaaaaaaaaaa : ~uint64_t{0};
    return std::span<const uint64_t>(words_);
  }
  void Accept(int32_t id) override { last_ = id; }

 private:
  int32_t last_ = 0;
  std::vector<uint64_t> words_ = {0};
};

TEST(SpeculationTest, AConstraintIsAskedForEveryDrawnToken) {
  GenerationRequest request = Repeating({5, 6, 5, 6}, 40);
  request.constraint = std::make_shared<Alternating>();
  const Ids expected = IdsAlone(request);
  request.constraint = std::make_shared<Alternating>();
  Engine engine(Forced());
  engine.Start();
  EXPECT_EQ(Complete(engine, request), expected);
  EXPECT_GT(engine.scheduler.stats().speculation.accepted, 0);
}

// Allows one token at a time.
class Scripted : public TokenConstraint {
 public:
  explicit Scripted(Ids ids) : ids_(std::move(ids)) {}
  absl::StatusOr<std::span<const uint64_t>> Allowed() override {
    words_[0] = uint64_t{1} << ids_[next_];
    return std::span<const uint64_t>(words_);
  }
  void Accept(int32_t /*id*/) override { ++next_; }

 private:
  const Ids ids_;
  size_t next_ = 0;
  std::vector<uint64_t> words_ = {0};
};

// 1 2 3 4 | 1 2: the guess is 3 4. A step that carries 3 as a
// draft fails; but what is drawn is 9.
TEST(SpeculationTest, AGuessThatTheModelCannotTakeHarmsNobody) {
  FakeSpineOptions poisoned;
  poisoned.poisonous_draft = 3;
  GenerationRequest request = MakeRequest({1, 2, 3, 4, 1}, 4);
  request.constraint = std::make_shared<Scripted>(Ids{2, 9, 8, 10});
  Engine engine(Forced(), poisoned);
  engine.Start();
  EXPECT_THAT(Complete(engine, request), ::testing::ElementsAre(2, 9, 8, 10));
  EXPECT_EQ(engine.spine.steps_abandoned(), 1);
}

TEST(SpeculationTest, ASpineThatCannotTakeBackIsNotAskedTo) {
  FakeSpineOptions spine;
  spine.max_drafts = 0;
  Engine engine(Forced(), spine);
  engine.Start();
  const GenerationRequest request = Repeating({5, 6, 5, 6}, 20);
  EXPECT_EQ(Complete(engine, request), IdsAlone(request));
  EXPECT_EQ(engine.scheduler.stats().speculation.drafted, 0);
}

TEST(SpeculationTest, ARequestForAllRowsHasNoGuesses) {
  Engine engine(Forced());
  engine.Start();
  GenerationRequest request = Repeating({5, 6, 5, 6}, 20);
  request.want_all_logits = true;
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  EXPECT_TRUE(recorder.AwaitFinish().status.ok());
  EXPECT_EQ(recorder.logits().size(), 23u);
  EXPECT_EQ(engine.scheduler.stats().speculation.drafted, 0);
}

TEST(SpeculationTest, AutoGivesTheSameTokens) {
  SchedulerOptions options;
  options.speculation = SpeculationMode::kAuto;
  Engine engine(options);
  engine.Start();
  const GenerationRequest request = Repeating({5, 6, 5, 6}, 200, 0.2f);
  EXPECT_EQ(Complete(engine, request), IdsAlone(request));
}

TEST(SpeculationTest, ModesHaveNames) {
  EXPECT_EQ(ParseSpeculationMode("off"), SpeculationMode::kOff);
  EXPECT_EQ(ParseSpeculationMode("auto"), SpeculationMode::kAuto);
  EXPECT_EQ(ParseSpeculationMode("force"), SpeculationMode::kForce);
  EXPECT_EQ(ParseSpeculationMode(""), std::nullopt);
  EXPECT_EQ(ParseSpeculationMode("on"), std::nullopt);
}

}  // namespace
}  // namespace deltafin
