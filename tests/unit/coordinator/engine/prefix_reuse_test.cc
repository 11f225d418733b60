// Requests that go on from states that others left behind.
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

SchedulerOptions Retaining(int64_t bytes = 1 << 20) {
  SchedulerOptions options;
  options.retained_bytes = bytes;
  return options;
}

Ids Concatenate(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Runs the request to its end; the usage that it reports.
Usage Complete(Engine& engine, const GenerationRequest& request,
               Ids* output = nullptr) {
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  const RequestResult& result = recorder.AwaitFinish();
  EXPECT_TRUE(result.status.ok()) << result.status;
  if (output != nullptr) *output = recorder.ids();
  return result.usage;
}

TEST(PrefixReuseTest, ATurnComputesWhatIsNewAlone) {
  Engine engine(Retaining());
  engine.Start();
  Ids conversation = {1, 2, 3, 4, 5};
  int64_t prefilled = 0, fed = 0;
  for (int turn = 0; turn < 10; ++turn) {
    const GenerationRequest request = MakeRequest(conversation, 4);
    Ids reply;
    const Usage usage = Complete(engine, request, &reply);
    EXPECT_EQ(reply, IdsAlone(request)) << "turn " << turn;
    EXPECT_EQ(usage.cached_tokens, fed) << "turn " << turn;
    prefilled += std::ssize(conversation) - fed;
    EXPECT_EQ(engine.scheduler.stats().prefill_tokens, prefilled);
    // The last token of the reply was drawn and never fed.
    fed = std::ssize(conversation) + 3;
    conversation = Concatenate({conversation, reply, {10 + turn, 11}});
  }
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_EQ(prefilled, 5 + 9 * 3);
  EXPECT_EQ(stats.decode_tokens, 10 * 3);
  EXPECT_EQ(stats.reuse.hits, 9);
  EXPECT_EQ(stats.reuse.misses, 1);
  EXPECT_GT(stats.reuse.retained_bytes, 0);
  EXPECT_EQ(stats.reuse.retained_states, 20);
}

TEST(PrefixReuseTest, AnotherAnswerToThePromptStartsAtItsEnd) {
  Engine engine(Retaining());
  engine.Start();
  Complete(engine, MakeRequest({1, 2, 3, 4, 5, 6}, 4));
  const GenerationRequest other = MakeRequest({1, 2, 3, 4, 5, 6, 50}, 4);
  Ids ids;
  EXPECT_EQ(Complete(engine, other, &ids).cached_tokens, 6);
  EXPECT_EQ(ids, IdsAlone(other));
}

TEST(PrefixReuseTest, ChatsShareTheirInstructions) {
  Engine engine(Retaining());
  engine.Start();
  const Ids system = {20, 21, 22, 23};
  GenerationRequest first = MakeRequest(Concatenate({system, {1, 2}}), 3);
  first.shared_prefix_tokens = 4;
  GenerationRequest second = MakeRequest(Concatenate({system, {3, 4, 5}}), 3);
  second.shared_prefix_tokens = 4;
  Ids ids;
  EXPECT_EQ(Complete(engine, first, &ids).cached_tokens, 0);
  EXPECT_EQ(ids, IdsAlone(first));
  EXPECT_EQ(Complete(engine, second, &ids).cached_tokens, 4);
  EXPECT_EQ(ids, IdsAlone(second));
}

TEST(PrefixReuseTest, TheSamePromptIsComputedFromItsLongestBeginning) {
  Engine engine(Retaining());
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2, 3, 4, 5}, 3);
  request.shared_prefix_tokens = 4;
  Ids first, second;
  Complete(engine, request, &first);
  // The state after all five holds no row to draw from.
  EXPECT_EQ(Complete(engine, request, &second).cached_tokens, 4);
  EXPECT_EQ(first, second);
}

TEST(PrefixReuseTest, ManyAtOnceGiveWhatTheyGiveAlone) {
  SchedulerOptions options = Retaining(20000);
  options.prefill_chunk = 3;
  Engine engine(options);
  engine.Start();
  for (int round = 0; round < 3; ++round) {
    std::vector<GenerationRequest> requests;
    std::vector<TokenRecorder> recorders(6);
    for (int i = 0; i < 6; ++i) {
      GenerationRequest request =
          MakeRequest(Concatenate({{7, 8, 9}, Ids(i, 30 + i), {round, 5}}), 5);
      request.shared_prefix_tokens = 3;
      request.sampling.temperature = i % 2 == 0 ? 0 : 1;
      requests.push_back(request);
      engine.Submit(request, &recorders[i]);
    }
    for (int i = 0; i < 6; ++i) {
      EXPECT_TRUE(recorders[i].AwaitFinish().status.ok());
      EXPECT_EQ(recorders[i].ids(), IdsAlone(requests[i]));
    }
  }
  EXPECT_GT(engine.scheduler.stats().reuse.hits, 6);
}

TEST(PrefixReuseTest, NothingIsRetainedUnlessAskedFor) {
  Engine engine;
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2, 3}, 2);
  request.shared_prefix_tokens = 2;
  Complete(engine, request);
  EXPECT_EQ(Complete(engine, MakeRequest({1, 2, 3, 4}, 2)).cached_tokens, 0);
  const SchedulerStats stats = engine.scheduler.stats();
  EXPECT_EQ(stats.reuse.retained_states, 0);
  EXPECT_EQ(stats.steps, 4);  // nor is a prompt cut for it
}

TEST(PrefixReuseTest, ARequestForAllRowsComputesThemAll) {
  Engine engine(Retaining());
  engine.Start();
  Complete(engine, MakeRequest({1, 2, 3}, 2));
  GenerationRequest request = MakeRequest({1, 2, 3, 4, 5}, 2);
  request.want_all_logits = true;
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  EXPECT_EQ(recorder.AwaitFinish().usage.cached_tokens, 0);
  EXPECT_EQ(recorder.logits().size(), 6u);
  EXPECT_EQ(engine.scheduler.stats().reuse.retained_states, 2);  // the first's
}

TEST(PrefixReuseTest, AFailedRequestLeavesNothingBehind) {
  FakeSpineOptions spine;
  spine.poison_id = 33;
  Engine engine(Retaining(), spine);
  engine.Start();
  TokenRecorder recorder;
  engine.Submit(MakeRequest({1, 2, 33}, 2), &recorder);
  EXPECT_EQ(recorder.AwaitFinish().status.code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(engine.scheduler.stats().reuse.retained_states, 0);
}

// A fake state counts 1000 bytes and 10 a token, and 4 for its id.
TEST(PrefixReuseTest, RetainedStatesGiveWayToLiveOnes) {
  SchedulerOptions options = Retaining(2500);
  options.sequence_bytes = 1100;
  Engine engine(options);
  engine.Start();
  Complete(engine, MakeRequest({1, 2, 3}, 1));
  Complete(engine, MakeRequest({4, 5, 6}, 1));
  EXPECT_EQ(engine.scheduler.stats().reuse.retained_states, 2);
  // 3100 of 3600 bytes leave no room beside it: both go, and it runs.
  const GenerationRequest large = MakeRequest({1, 2, 3, 4}, 207);
  Ids ids;
  EXPECT_EQ(Complete(engine, large, &ids).cached_tokens, 0);
  EXPECT_EQ(std::ssize(ids), 207);
  EXPECT_EQ(engine.scheduler.stats().reuse.evictions, 2);
  TokenRecorder never;
  EXPECT_EQ(
      engine.scheduler.Submit(MakeRequest({1}, 262), &never).status().code(),
      absl::StatusCode::kResourceExhausted);
}

TEST(PrefixReuseTest, RetainedStatesGiveWayWhereMemoryIsRefused) {
  FakeSpineOptions spine;
  spine.max_sequences = 2;
  Engine engine(Retaining(), spine);
  engine.Start();
  for (int32_t i = 0; i < 5; ++i) {
    const GenerationRequest request = MakeRequest({i, 2, 3}, 3);
    Ids ids;
    Complete(engine, request, &ids);
    EXPECT_EQ(ids, IdsAlone(request));
  }
  EXPECT_LE(engine.spine.num_sequences(), 2);
}

TEST(PrefixReuseTest, SharedTokensMustLieInThePrompt) {
  Engine engine;
  TokenRecorder recorder;
  for (const int64_t shared : {-1, 4}) {
    GenerationRequest request = MakeRequest({1, 2, 3}, 1);
    request.shared_prefix_tokens = shared;
    EXPECT_EQ(engine.scheduler.Submit(request, &recorder).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace deltafin
