// Single operators against tests/golden/ops on every target.
#include <gtest/gtest.h>

#include "kernels/linear_kernel.h"
#include "tests/testing/golden_file.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_definition.h"

namespace deltafin {
namespace {

using ::deltafin::testing::GoldenFile;
using ::deltafin::testing::OpenGoldenOperator;

class ElementwiseGoldenTest : public KernelTargetTest {
 protected:
  const ElementwiseKernel& kernel() const { return target_->elementwise; }
};

TEST_P(ElementwiseGoldenTest, SituMatches) {
  const GoldenFile file = OpenGoldenOperator("situ");
  const auto gate = file.Get<float>("gate");
  const auto up = file.Get<float>("up");
  const auto want = file.Get<double>("f64.out");
  std::vector<float> y(want.size());
  kernel().situ(gate.data(), up.data(), static_cast<int>(y.size()), {},
                y.data());
  for (size_t i = 0; i < y.size(); ++i) {
    ASSERT_NEAR(y[i], want[i], 1e-6 * std::fabs(want[i]) + 1e-6) << i;
  }
}

TEST_P(ElementwiseGoldenTest, RmsNormMatches) {
  const GoldenFile file = OpenGoldenOperator("rmsnorm");
  const auto x = file.Get<float>("x");
  const auto weight = file.Get<float>("weight");
  const int n = static_cast<int>(weight.size());
  for (const auto& [name, eps] :
       {std::pair{"f64.out_eps1e-5", 1e-5f}, {"f64.out_eps1e-6", 1e-6f}}) {
    const auto want = file.Get<double>(name);
    for (size_t row = 0; row < x.size(); row += n) {
      std::vector<float> y(n);
      ASSERT_EQ(kernel().rms_norm(&x[row], weight.data(), n, eps, y.data()),
                KernelStatus::kOk);
      for (int i = 0; i < n; ++i) {
        ASSERT_NEAR(y[i], want[row + i], 1e-6 * std::fabs(want[row + i]));
      }
    }
  }
}

// Convolves all tokens; the raw inputs before the first are `history` [3, n].
std::vector<float> Convolve(const ElementwiseKernel& kernel,
                            const std::vector<float>& x,
                            const std::vector<float>& history,
                            const std::vector<float>& taps, int n) {
  std::vector<float> raw = history;
  raw.insert(raw.end(), x.begin(), x.end());
  std::vector<float> y(x.size());
  for (size_t t = 0; t * n < x.size(); ++t) {
    const float* u3 = &raw[t * n];
    kernel.short_conv(taps.data(), u3 + 3 * n, u3 + 2 * n, u3 + n, u3, n,
                      &y[t * n]);
  }
  return y;
}

TEST_P(ElementwiseGoldenTest, ShortConvolutionMatches) {
  const GoldenFile file = OpenGoldenOperator("short_conv");
  const auto x = file.Get<float>("x");
  const auto weight = file.Get<float>("weight");  // [n, 1, 4]
  const int n = file.Shape("x")[1];
  std::vector<float> taps(weight.size());  // [4, n]
  for (size_t i = 0; i < taps.size(); ++i) taps[i % 4 * n + i / 4] = weight[i];
  for (const auto& [name, history] :
       {std::pair{"f64.y", file.Get<float>("history")},
        {"f64.y_zero_history", std::vector<float>(size_t{3} * n)}}) {
    const auto y = Convolve(kernel(), x, history, taps, n);
    const auto want = file.Get<double>(name);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], want[i], 2e-6) << name << " " << i;
    }
  }
}

TEST_P(ElementwiseGoldenTest, Bf16WeightsReadBackExactly) {
  const GoldenFile file = OpenGoldenOperator("bf16");
  const auto bits = file.Get<uint16_t>("bits_u16");
  const auto want = file.Get<float>("f32.back");
  // One row times 1: the widened weight, unless that is not a number.
  for (size_t i = 0; i < bits.size(); ++i) {
    LinearCase c;
    c.rows = c.cols = 1;
    c.tiles.resize(LinearTileBytes(c.format, 1, 1) / 4);
    PackBf16Block(&bits[i], 1, 1, c.tiles.data());
    KernelStatus status;
    const auto y = KernelProduct(target_->linear, c, {1.0f}, 1, &status);
    EXPECT_EQ(status == KernelStatus::kOk, std::isfinite(want[i]));
    if (want[i] == 0) {
      EXPECT_EQ(y[0], 0.0f);  // the sum starts at +0
    } else {
      EXPECT_TRUE(SameBits(y[0], want[i])) << i;
    }
  }
}

DELTAFIN_FOR_EACH_TARGET(ElementwiseGoldenTest);

}  // namespace
}  // namespace deltafin
