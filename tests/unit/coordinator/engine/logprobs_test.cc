#include "coordinator/engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deltafin {
namespace {

TEST(LogprobsTest, AreTheLogOfTheSoftmax) {
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f),
                                     std::log(5.0f)};
  const Logprobs logprobs = ComputeLogprobs(logits, 1, 0);
  EXPECT_NEAR(logprobs.chosen, std::log(0.25), 1e-6);
  EXPECT_TRUE(logprobs.top.empty());
}

TEST(LogprobsTest, TopOnesDescendAndEqualOnesComeByLowerId) {
  const Logprobs logprobs =
      ComputeLogprobs(std::vector<float>{1, 3, 3, 2}, 0, 3);
  ASSERT_EQ(logprobs.top.size(), 3u);
  EXPECT_EQ(logprobs.top[0].id, 1);
  EXPECT_EQ(logprobs.top[1].id, 2);
  EXPECT_EQ(logprobs.top[2].id, 3);
  EXPECT_EQ(logprobs.top[0].logprob, logprobs.top[1].logprob);
  EXPECT_NEAR(logprobs.top[2].logprob - logprobs.top[1].logprob, -1, 1e-6);
}

TEST(LogprobsTest, LargeLogitsDoNotOverflow) {
  const Logprobs logprobs =
      ComputeLogprobs(std::vector<float>{3e38f, -3e38f}, 0, 20);
  EXPECT_EQ(logprobs.chosen, 0);
  EXPECT_EQ(logprobs.top.size(), 2u);
}

}  // namespace
}  // namespace deltafin
