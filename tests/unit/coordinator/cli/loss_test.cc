#include "coordinator/cli/loss.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deltafin {
namespace {

TEST(LossTest, IsTheNegativeLogOfTheSoftmax) {
  const std::vector<float> logits{1, 2, 3};
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_NEAR(NegativeLogLikelihood(logits, 0), -std::log(std::exp(1.0) / sum),
              1e-14);
  EXPECT_NEAR(NegativeLogLikelihood(logits, 2), -std::log(std::exp(3.0) / sum),
              1e-14);
}

TEST(LossTest, HoldsForLargeLogits) {
  EXPECT_NEAR(NegativeLogLikelihood(std::vector<float>{3e38f, 3e38f}, 1),
              std::log(2.0), 1e-12);
  EXPECT_NEAR(NegativeLogLikelihood(std::vector<float>{-1000, 1000}, 0), 2000,
              1e-9);
}

TEST(LossTest, TopIdsDescendAndTiesGoToTheLowerId) {
  const std::vector<float> logits{5, 7, 7, -1, 6};
  EXPECT_EQ(TopIds(logits, 3), (std::vector<int32_t>{1, 2, 4}));
  EXPECT_EQ(TopIds(logits, 9).size(), 5u);
}

TEST(LossTest, MeterAveragesTokensAndBytes) {
  LossMeter meter;
  EXPECT_EQ(meter.mean_nll(), 0);
  EXPECT_EQ(meter.bits_per_byte(), 0);
  meter.Add(1.0, 3);
  meter.Add(2.0, 1);
  EXPECT_EQ(meter.tokens(), 2);
  EXPECT_DOUBLE_EQ(meter.mean_nll(), 1.5);
  EXPECT_DOUBLE_EQ(meter.bits_per_byte(), 3.0 / std::log(2.0) / 4);
}

TEST(AgreementTest, CountsLikeliestTokensAndShifts) {
  AgreementMeter meter;
  const std::vector<float> a{9, 8, 7, 6, 5, 0};
  meter.Add(a, a);
  EXPECT_EQ(meter.top1(), 1);
  EXPECT_EQ(meter.top5(), 1);
  EXPECT_EQ(meter.max_shift(), 0);
  const std::vector<float> b{8, 9, 7, 6, 0, 5};  // id 5 replaces id 4
  meter.Add(a, b);
  EXPECT_DOUBLE_EQ(meter.top1(), 0.5);
  EXPECT_DOUBLE_EQ(meter.top5(), 0.9);
  EXPECT_DOUBLE_EQ(meter.max_shift(), 5);
  EXPECT_DOUBLE_EQ(meter.mean_shift(), 12.0 / 12);
}

}  // namespace
}  // namespace deltafin
