#include "coordinator/engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "coordinator/engine/philox.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

// The token chosen at `position` after `output` was chosen before it.
int32_t Choose(const SamplingOptions& options, std::vector<float> logits,
               int64_t position = 0, std::vector<int32_t> prompt = {},
               std::vector<int32_t> output = {}) {
  Sampler sampler(options, prompt, BestKernel().elementwise);
  for (const int32_t id : output) sampler.Accept(id);
  return sampler.Sample(logits, position).value();
}

SamplingOptions Warm(float temperature = 1) {
  SamplingOptions options;
  options.temperature = temperature;
  return options;
}

TEST(SamplerTest, GreedyTakesTheLargestLogitAndTheLowerIdOfEqualOnes) {
  EXPECT_EQ(Choose({}, {1, 3, 2}), 1);
  EXPECT_EQ(Choose({}, {1, 3, 3}), 1);
  EXPECT_EQ(Choose({}, {-0.0f, 0.0f, -1}), 0);
  EXPECT_EQ(Choose({}, {-5, -3, -4}), 1);
}

// Key 0 and counter 0 give the word 0x6627e8d5: u = 0.39905.
TEST(SamplerTest, DrawsWhereThePublishedPhiloxWordPoints) {
  EXPECT_EQ(Choose(Warm(), std::vector<float>(10, 2.5f)), 3);
  EXPECT_EQ(Choose(Warm(), std::vector<float>(100, 2.5f)), 39);
  // Candidates in descending order: ids 2 (p 0.665), 1 (0.245), 0 (0.090).
  EXPECT_EQ(Choose(Warm(), {0, 1, 2}), 2);
}

TEST(SamplerTest, DrawsDependOnPositionSeedAndChoice) {
  const std::vector<float> flat(1000, 0);
  SamplingOptions other_seed = Warm();
  other_seed.seed = uint64_t{1} << 40;
  SamplingOptions other_choice = Warm();
  other_choice.choice = 1;
  const int32_t id = Choose(Warm(), flat, 7);
  EXPECT_EQ(Choose(Warm(), flat, 7), id);
  EXPECT_NE(Choose(Warm(), flat, 8), id);
  EXPECT_NE(Choose(Warm(), flat, 7 + (int64_t{1} << 32)), id);
  EXPECT_NE(Choose(other_seed, flat, 7), id);
  EXPECT_NE(Choose(other_choice, flat, 7), id);
}

TEST(SamplerTest, FrequenciesFollowTheProbabilities) {
  // p = 0.1, 0.2, 0.7
  const std::vector<float> logits = {std::log(0.1f), std::log(0.2f),
                                     std::log(0.7f)};
  Sampler sampler(Warm(), {}, BestKernel().elementwise);
  std::vector<int> counts(3);
  constexpr int kDraws = 10000;
  for (int position = 0; position < kDraws; ++position) {
    ++counts[sampler.Sample(logits, position).value()];
  }
  // Five standard deviations of a binomial: 5 sqrt(n p (1 - p)) <= 250.
  EXPECT_NEAR(counts[0], 1000, 150);
  EXPECT_NEAR(counts[1], 2000, 200);
  EXPECT_NEAR(counts[2], 7000, 230);
}

TEST(SamplerTest, TopKKeepsTheLargestAndTheLowerIdOfEqualOnes) {
  SamplingOptions options = Warm();
  options.top_k = 1;
  EXPECT_EQ(Choose(options, {1, 2, 2, 0}), 1);
  options.top_k = 2;
  for (int64_t position = 0; position < 200; ++position) {
    const int32_t id = Choose(options, {1, 1, 1, 1}, position);
    EXPECT_TRUE(id == 0 || id == 1) << id;
  }
}

TEST(SamplerTest, TopPKeepsTheShortestPrefixThatReachesIt) {
  // p = 0.5, 0.25, 0.25
  const std::vector<float> logits = {std::log(0.25f), std::log(0.5f),
                                     std::log(0.25f)};
  SamplingOptions options = Warm();
  options.top_p = 0.4f;
  for (int64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(Choose(options, logits, position), 1);
  }
  options.top_p = 0.6f;
  std::vector<int> counts(3);
  for (int64_t position = 0; position < 200; ++position) {
    ++counts[Choose(options, logits, position)];
  }
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);
  EXPECT_EQ(counts[2], 0);
}

TEST(SamplerTest, MinPDropsWhatIsFarBelowTheBest) {
  SamplingOptions options = Warm();
  options.min_p = 0.5f;
  std::vector<int> counts(3);
  for (int64_t position = 0; position < 200; ++position) {
    ++counts[Choose(options, {0, -0.6f, -0.8f}, position)];
  }
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);  // exp(-0.6) = 0.549
  EXPECT_EQ(counts[2], 0);  // exp(-0.8) = 0.449
}

TEST(SamplerTest, TemperatureSharpensAndFlattens) {
  std::vector<int> cold(2), hot(2);
  for (int64_t position = 0; position < 500; ++position) {
    ++cold[Choose(Warm(0.1f), {1, 0}, position)];
    ++hot[Choose(Warm(100), {1, 0}, position)];
  }
  EXPECT_EQ(cold[1], 0);  // p = 4.5e-5
  EXPECT_NEAR(hot[1], 250, 56);
}

// All candidates in order, as docs/numerics.md says it.
int32_t ChooseByDefinition(const SamplingOptions& options,
                           const std::vector<float>& logits, int64_t position) {
  const float inverse = 1.0f / options.temperature;
  std::vector<std::pair<float, int32_t>> order;  // negated, so that it ascends
  for (size_t id = 0; id < logits.size(); ++id) {
    order.emplace_back(-(logits[id] * inverse), static_cast<int32_t>(id));
  }
  std::sort(order.begin(), order.end());
  if (options.top_k > 0) order.resize(options.top_k);
  std::vector<float> p;
  for (const auto& [z, id] : order) p.push_back(order[0].first - z);
  BestKernel().elementwise.exp(p.data(), static_cast<int>(p.size()), p.data());
  float total = 0, sum = 0;
  for (const float e : p) total += e;
  for (float& e : p) e = e / total;
  size_t kept = options.top_p < 1 ? 0 : p.size();
  while (options.top_p < 1 && kept < p.size() && sum < options.top_p) {
    sum += p[kept++];
  }
  while (p[kept - 1] < options.min_p * p[0]) --kept;
  total = sum = 0;
  for (size_t i = 0; i < kept; ++i) total += p[i];
  const auto word = Philox4x32({static_cast<uint32_t>(position), 0, 0, 0},
                               {static_cast<uint32_t>(options.seed), 0})[0];
  const float target = static_cast<float>(word) * 0x1p-32f * total;
  for (size_t i = 0; i < kept; ++i) {
    sum += p[i];
    if (sum > target) return order[i].second;
  }
  return order[kept - 1].second;
}

TEST(SamplerTest, LargeVocabulariesAreDrawnFromAsByDefinition) {
  constexpr size_t kVocabulary = 12000;
  uint32_t state = 7;
  for (const float width : {0.5f, 8.0f, 40.0f}) {
    std::vector<float> logits(kVocabulary);
    for (float& z : logits) {
      state = state * 1664525 + 1013904223;
      z = width * static_cast<float>(state >> 20) * 0x1p-12f;  // with ties
    }
    for (const auto& [top_p, min_p, top_k] :
         std::vector<std::tuple<float, float, int>>{{1.0f, 0.0f, 0},
                                                    {0.9f, 0.0f, 0},
                                                    {0.9999999f, 0.0f, 0},
                                                    {1.0f, 0.01f, 0},
                                                    {1.0f, 1e-9f, 0},
                                                    {1.0f, 1e-30f, 0},
                                                    {0.95f, 0.0f, 5000}}) {
      SamplingOptions options = Warm(0.7f);
      options.top_p = top_p;
      options.min_p = min_p;
      options.top_k = top_k;
      for (int64_t position = 0; position < 2; ++position) {
        EXPECT_EQ(Choose(options, logits, position),
                  ChooseByDefinition(options, logits, position))
            << width << " " << top_p << " " << min_p << " " << top_k;
      }
    }
  }
}

TEST(SamplerTest, RepetitionPenaltyHoldsForPromptAndOutput) {
  SamplingOptions options;
  options.repetition_penalty = 2;
  EXPECT_EQ(Choose(options, {3, 2, 0}), 0);
  EXPECT_EQ(Choose(options, {3, 2, 0}, 1, {0}), 1);
  EXPECT_EQ(Choose(options, {3, 2, 0}, 1, {}, {0}), 1);
  EXPECT_EQ(Choose(options, {-3, -4}, 1, {0}), 1);
}

TEST(SamplerTest, FrequencyCountsOutputAndPresenceCountsItOnce) {
  SamplingOptions frequency;
  frequency.frequency_penalty = 0.5f;
  EXPECT_EQ(Choose(frequency, {2, 1.25f}, 2, {0, 0}, {}), 0);
  EXPECT_EQ(Choose(frequency, {2, 1.25f}, 2, {}, {0}), 0);
  EXPECT_EQ(Choose(frequency, {2, 1.25f}, 2, {}, {0, 0}), 1);
  SamplingOptions presence;
  presence.presence_penalty = 0.5f;
  EXPECT_EQ(Choose(presence, {2, 1.25f}, 2, {}, {0, 0}), 0);
  EXPECT_EQ(Choose(presence, {2, 1.75f}, 2, {}, {0}), 1);
}

TEST(SamplerTest, LogitBiasForcesAndForbids) {
  SamplingOptions options;
  options.logit_bias = {{2, 100.0f}, {0, -100.0f}};
  EXPECT_EQ(Choose(options, {5, 4, -50}), 2);
}

TEST(SamplerTest, NotFiniteLogitsAreAnErrorThatNamesTheToken) {
  Sampler sampler({}, {}, BestKernel().elementwise);
  const std::vector<float> logits = {0,
                                     std::numeric_limits<float>::quiet_NaN()};
  const absl::Status status = sampler.Sample(logits, 9).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("token 1 for position 9"));
}

TEST(SamplerTest, ValuesOutsideTheirRangeAreToldAsTheyWereGiven) {
  const auto value = [](auto change) {
    SamplingOptions options;
    change(options);
    return FindSamplingFault(options, 10).value().value;
  };
  EXPECT_EQ(value([](auto& o) { o.temperature = 100.1f; }), "100.1");
  EXPECT_EQ(value([](auto& o) { o.top_p = 1.2f; }), "1.2");
  EXPECT_EQ(value([](auto& o) { o.top_k = -16777217; }), "-16777217");
  EXPECT_EQ(value([](auto& o) {
              o.logit_bias = {{123456789, 1}};
            }),
            "123456789");
}

TEST(SamplerTest, OptionsOutsideTheirRangeAreNamed) {
  const auto expect_named = [](auto change, const char* name) {
    SamplingOptions options;
    change(options);
    const absl::Status status = ValidateSampling(options, 10);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(ValidateSampling({}, 10).ok());
  expect_named([](auto& o) { o.temperature = -1; }, "temperature");
  expect_named([&](auto& o) { o.temperature = nan; }, "temperature");
  expect_named([](auto& o) { o.temperature = 1e-5f; }, "temperature");
  expect_named([](auto& o) { o.top_k = -1; }, "top_k");
  expect_named([](auto& o) { o.top_p = 0; }, "top_p");
  expect_named([](auto& o) { o.top_p = 1.5f; }, "top_p");
  expect_named([](auto& o) { o.min_p = -0.1f; }, "min_p");
  expect_named([](auto& o) { o.presence_penalty = 3; }, "presence_penalty");
  expect_named([](auto& o) { o.frequency_penalty = -3; }, "frequency_penalty");
  expect_named([](auto& o) { o.repetition_penalty = 0; }, "repetition_penalty");
  expect_named([](auto& o) { o.logit_bias = {{10, 0.0f}}; }, "logit_bias id");
  expect_named([&](auto& o) { o.logit_bias = {{1, nan}}; }, "logit_bias");
}

}  // namespace
}  // namespace deltafin
