#include "coordinator/engine/token_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "coordinator/engine/sampler.h"
#include "kernels/kernel_registry.h"
#include "tests/unit/coordinator/engine/engine_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using testing::Engine;
using ::testing::HasSubstr;
using testing::MakeRequest;
using testing::TokenRecorder;

// Allows a set of ids that depends on what was drawn before.
class ListedTokens : public TokenConstraint {
 public:
  // steps[i]: what token i may be; the last one goes on for ever.
  explicit ListedTokens(std::vector<std::vector<int32_t>> steps)
      : steps_(std::move(steps)) {}

  absl::StatusOr<std::span<const uint64_t>> Allowed() override {
    words_.assign(2, 0);
    const size_t step = std::min(accepted_.size(), steps_.size() - 1);
    for (const int32_t id : steps_[step]) {
      words_[id / 64] |= uint64_t{1} << (id % 64);
    }
    return std::span<const uint64_t>(words_);
  }
  void Accept(int32_t id) override { accepted_.push_back(id); }

  const std::vector<int32_t>& accepted() const { return accepted_; }

 private:
  const std::vector<std::vector<int32_t>> steps_;
  std::vector<uint64_t> words_;
  std::vector<int32_t> accepted_;
};

std::shared_ptr<ListedTokens> Only(std::vector<int32_t> ids) {
  return std::make_shared<ListedTokens>(
      std::vector<std::vector<int32_t>>{std::move(ids)});
}

int32_t Choose(const SamplingOptions& options, const std::vector<float>& logits,
               std::vector<int32_t> allowed, int64_t position = 0) {
  Sampler sampler(options, {}, BestKernel().elementwise, Only(allowed));
  return sampler.Sample(logits, position).value();
}

TEST(TokenConstraintTest, GreedyTakesTheLargestAllowedAndTheLowerIdOfTies) {
  EXPECT_EQ(Choose({}, {9, 1, 3, 3, 2}, {1, 2, 3, 4}), 2);
  EXPECT_EQ(Choose({}, {9, 1, 3, 3, 2}, {4, 3}), 3);
  EXPECT_EQ(Choose({}, {9, 1, 3, 3, 2}, {1}), 1);
  std::vector<float> wide(128, 0);
  EXPECT_EQ(Choose({}, wide, {127, 64}), 64);
  EXPECT_EQ(Choose({}, wide, {127}), 127);
}

TEST(TokenConstraintTest, ForbiddenTokensStayForbiddenWhateverTheirBias) {
  SamplingOptions options;
  options.logit_bias = {{0, 100.0f}, {2, 1.5f}};
  EXPECT_EQ(Choose(options, {0, 1, 0}, {1, 2}), 2);  // the bias still counts
  options.temperature = 1;
  for (int64_t position = 0; position < 100; ++position) {
    EXPECT_NE(Choose(options, {0, 1, 0}, {1, 2}, position), 0);
  }
}

// u = 0.39905 at position 0, seed 0: the second of three equal ones (1.197),
// the first of two, the second of five (1.995).
TEST(TokenConstraintTest, ProbabilitiesAreThoseAmongTheAllowed) {
  SamplingOptions options;
  options.temperature = 1;
  const std::vector<float> flat(8, 1.0f);
  EXPECT_EQ(Choose(options, flat, {1, 3, 5}), 3);
  EXPECT_EQ(Choose(options, flat, {5, 6}), 5);
  EXPECT_EQ(Choose(options, flat, {0, 2, 4, 6, 7}), 2);
  EXPECT_EQ(Choose(options, flat, {7}), 7);
}

TEST(TokenConstraintTest, CandidatesAreCountedAmongTheAllowed) {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 1;
  EXPECT_EQ(Choose(options, {5, 4, 3, 2}, {2, 3}), 2);
  options.top_k = 0;
  options.min_p = 0.9f;
  EXPECT_EQ(Choose(options, {5, 4, 3, 2}, {1, 2, 3}), 1);
}

TEST(TokenConstraintTest, NothingAllowedIsAnErrorThatNamesThePosition) {
  Sampler sampler({}, {}, BestKernel().elementwise, Only({}));
  const auto id = sampler.Sample(std::vector<float>(4, 0.0f), 17);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(id.status().message()),
              HasSubstr("allows no token at position 17"));
}

TEST(TokenConstraintTest, OnlyBitsBeyondTheVocabularyAllowNothing) {
  Sampler sampler({}, {}, BestKernel().elementwise, Only({4, 63}));
  const auto id = sampler.Sample(std::vector<float>(4, 0.0f), 0);
  EXPECT_EQ(id.status().code(), absl::StatusCode::kInternal);
}

TEST(TokenConstraintTest, AConstraintForASmallerVocabularyIsAnError) {
  Sampler sampler({}, {}, BestKernel().elementwise, Only({1}));
  const auto id = sampler.Sample(std::vector<float>(129, 0.0f), 0);
  EXPECT_THAT(std::string(id.status().message()),
              HasSubstr("tells of 128 tokens, the vocabulary has 129"));
}

TEST(TokenConstraintTest, ARequestDrawsWhatIsAllowedAndTellsWhatItDrew) {
  Engine engine;
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2, 3}, 4);
  const auto constraint = std::make_shared<ListedTokens>(
      std::vector<std::vector<int32_t>>{{7}, {8}, {9}, {10}});
  request.constraint = constraint;
  TokenRecorder recorder;
  engine.Submit(request, &recorder);
  EXPECT_TRUE(recorder.AwaitFinish().status.ok());
  EXPECT_THAT(recorder.ids(), ElementsAre(7, 8, 9, 10));
  EXPECT_THAT(constraint->accepted(), ElementsAre(7, 8, 9, 10));
}

TEST(TokenConstraintTest, WhatTheConstraintReportsEndsItsRequestAlone) {
  Engine engine;
  GenerationRequest request = MakeRequest({1, 2, 3}, 4);
  request.constraint = std::make_shared<ListedTokens>(
      std::vector<std::vector<int32_t>>{{7}, {}});
  TokenRecorder recorder, companion;
  engine.Submit(request, &recorder);
  engine.Submit(MakeRequest({4, 5}, 4), &companion);
  engine.Start();
  EXPECT_EQ(recorder.AwaitFinish().status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(recorder.ids(), ElementsAre(7));
  EXPECT_TRUE(companion.AwaitFinish().status.ok());
  EXPECT_EQ(companion.tokens().size(), 4u);
}

// The same token, once forced by its bias and once by a constraint.
TEST(TokenConstraintTest, LogprobsAreThoseOfTheModelItself) {
  Engine engine;
  engine.Start();
  GenerationRequest request = MakeRequest({1, 2, 3}, 1);
  request.want_logprobs = true;
  TokenRecorder free_run, held;
  request.sampling.logit_bias = {{7, 100.0f}};
  engine.Submit(request, &free_run);
  free_run.AwaitFinish();
  request.sampling.logit_bias.clear();
  request.constraint = Only({7});
  engine.Submit(request, &held);
  held.AwaitFinish();
  ASSERT_EQ(free_run.ids(), held.ids());
  EXPECT_EQ(held.tokens()[0].logprob, free_run.tokens()[0].logprob);
  EXPECT_LT(held.tokens()[0].logprob, 0);
}

}  // namespace
}  // namespace deltafin
