// Router of docs/numerics.md section 7 on every target.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/reference/reference_tables.h"
#include "tests/testing/golden_file.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {
namespace {

using ::deltafin::testing::GoldenFile;
using ::deltafin::testing::OpenGoldenOperator;

struct Route {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Route RouteOnce(const ElementwiseKernel& kernel, const std::vector<float>& z,
                const std::vector<float>& bias, int top_k,
                float scaling = 1.0f) {
  Route route{std::vector<int32_t>(top_k, -1), std::vector<float>(top_k)};
  std::vector<float> scratch(2 * z.size());
  RouteToken(kernel, z.data(), bias.data(), static_cast<int>(z.size()), top_k,
             scaling, scratch.data(), route.ids.data(), route.weights.data());
  return route;
}

class RouterTest : public KernelTargetTest {
 protected:
  Route RouteBy(const std::vector<float>& z, const std::vector<float>& bias,
                int top_k, float scaling = 1.0f) {
    return RouteOnce(target_->elementwise, z, bias, top_k, scaling);
  }
};

// The golden's ids come in descending order of score.
void ExpectGolden(const Route& route, const int64_t* ids, const double* weights,
                  int top_k) {
  std::vector<int> order(top_k);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return ids[a] < ids[b]; });
  for (int i = 0; i < top_k; ++i) {
    ASSERT_EQ(route.ids[i], ids[order[i]]);
    ASSERT_NEAR(route.weights[i], weights[order[i]], 1e-6);
  }
}

TEST_P(RouterTest, MatchesTheGoldenWithTies) {
  const GoldenFile file = OpenGoldenOperator("router");
  const auto logits = file.Get<float>("logits");
  const auto bias = file.Get<float>("bias");
  const auto ids = file.Get<int64_t>("ids");
  const auto weights = file.Get<double>("f64.weights");
  const int experts = 40, top_k = 6;
  for (int row = 0; row < 16; ++row) {
    const std::vector<float> z(&logits[row * experts],
                               &logits[row * experts] + experts);
    ExpectGolden(RouteBy(z, bias, top_k), &ids[row * top_k],
                 &weights[row * top_k], top_k);
  }
}

TEST_P(RouterTest, TakesTheLowerIndexOfEqualScores) {
  const GoldenFile file = OpenGoldenOperator("router");
  const auto ids = file.Get<int64_t>("tie.ids");
  const auto weights = file.Get<double>("tie.weights");
  const Route route =
      RouteBy(std::vector<float>(40), std::vector<float>(40), 6);
  ExpectGolden(route, ids.data(), weights.data(), 6);
  EXPECT_EQ(route.ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  // Seven equal scores for the last two places.
  std::vector<float> z(20, 1.0f);
  z[15] = z[3] = 2.0f;
  z[7] = -1.0f;
  EXPECT_EQ(RouteBy(z, std::vector<float>(20), 4).ids,
            (std::vector<int32_t>{0, 1, 3, 15}));
}

TEST_P(RouterTest, ChoosesByBiasButWeighsWithoutIt) {
  const std::vector<float> z = {0.0f, 0.0f, 0.0f, 0.0f};
  const Route route = RouteBy(z, {0.0f, 5.0f, -5.0f, 1.0f}, 2, 3.0f);
  EXPECT_EQ(route.ids, (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(route.weights, (std::vector<float>{1.5f, 1.5f}));
}

TEST_P(RouterTest, GivesTheDefinedBits) {
  XorShift64 random;
  for (int experts : {16, 24, 60, 896}) {
    for (int round = 0; round < 20; ++round) {
      const auto z = RandomFloats(&random, experts, {118, 129});
      const auto bias = RandomFloats(&random, experts, {110, 124});
      for (const int top_k : {1, 4, 16}) {
        const Route got = RouteBy(z, bias, top_k, 2.5f);
        const Route want =
            RouteOnce(kReferenceElementwiseKernel, z, bias, top_k, 2.5f);
        ASSERT_EQ(got.ids, want.ids);
        ASSERT_TRUE(SameFloats(got.weights, want.weights));
        ASSERT_TRUE(std::is_sorted(got.ids.begin(), got.ids.end()));
      }
    }
  }
}

TEST_P(RouterTest, AddsTheChosenScoresInAscendingOrderOfExpert) {
  const std::vector<float> z = {-9.0f, 3.0f, -12.5f, 0.25f, 8.0f};
  const Route route = RouteBy(z, std::vector<float>(5), 5);
  std::vector<float> s(5);
  kReferenceElementwiseKernel.sigmoid(z.data(), 5, s.data());
  const float sum = (((s[0] + s[1]) + s[2]) + s[3]) + s[4];
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(SameBits(route.weights[i], s[i] / (sum + 1e-20f)));
  }
}

DELTAFIN_FOR_EACH_TARGET(RouterTest);

}  // namespace
}  // namespace deltafin
