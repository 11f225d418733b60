// The KDA recurrence of docs/numerics.md section 7 on every target.
#include <gtest/gtest.h>

#include "kernels/reference/reference_tables.h"
#include "tests/testing/golden_file.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {
namespace {

using ::deltafin::testing::GoldenFile;
using ::deltafin::testing::OpenGoldenOperator;

// A step's inputs, drawn in a fixed order.
struct StepInputs {
  std::vector<float> q, k, v, decay;
  float beta;
};

StepInputs RandomStep(int dim, XorShift64* random) {
  StepInputs s;
  s.q = RandomFloats(random, dim, {115, 124});
  s.k = RandomFloats(random, dim, {115, 124});
  s.v = RandomFloats(random, dim);
  s.decay = RandomFloats(random, dim, {122, 126});
  for (float& a : s.decay) a = std::fabs(a);
  s.beta = std::fabs(RandomFloat(random, {122, 126}));
  return s;
}

void RunStep(const ElementwiseKernel& kernel, const StepInputs& s, float* state,
             float* out) {
  kernel.kda_step({.dim = static_cast<int>(s.q.size()),
                   .q = s.q.data(),
                   .k = s.k.data(),
                   .v = s.v.data(),
                   .decay = s.decay.data(),
                   .beta = s.beta,
                   .state = state,
                   .out = out});
}

class KdaTest : public KernelTargetTest {};

TEST_P(KdaTest, StepsGiveTheDefinedBitsForEveryHeadSize) {
  XorShift64 random;
  for (const int dim : {1, 3, 8, 15, 16, 17, 32, 63, 64, 100, 128, 129, 192}) {
    std::vector<float> got(size_t(dim) * dim), want = got;
    for (int token = 0; token < 5; ++token) {
      const StepInputs s = RandomStep(dim, &random);
      std::vector<float> out(dim + 1, 7.0f), want_out(dim + 1, 7.0f);
      RunStep(target_->elementwise, s, got.data(), out.data());
      RunStep(kReferenceElementwiseKernel, s, want.data(), want_out.data());
      ASSERT_TRUE(SameFloats(out, want_out)) << "dim " << dim;
      ASSERT_TRUE(SameFloats(got, want)) << "dim " << dim << ", state";
    }
  }
}

// Slice [head] of row t of a [T, heads, dim] tensor.
const float* Row(const std::vector<float>& x, int t, int head, int heads,
                 int dim) {
  return &x[(size_t(t) * heads + head) * dim];
}

// tests/golden/ops/kda: 37 tokens from raw projections to outputs and state.
class KdaGoldenTest : public KernelTargetTest {
 protected:
  static constexpr int kHeads = 3, kDim = 8, kTokens = 37;

  void SetUp() override {
    KernelTargetTest::SetUp();
    q_ = file_.Get<float>("q");
    k_ = file_.Get<float>("k");
    v_ = file_.Get<float>("v");
    raw_gate_ = file_.Get<float>("raw_gate");
    a_log_ = file_.Get<float>("A_log");
    dt_bias_ = file_.Get<float>("dt_bias");
    beta_logit_ = file_.Get<float>("beta_logit");
    state_ = file_.Get<float>("S0");
  }

  // Inputs of the recurrence from what the projections give.
  StepInputs Prepare(int t, int head) {
    const ElementwiseKernel& f = target_->elementwise;
    StepInputs s;
    for (auto* v : {&s.q, &s.k, &s.v, &s.decay}) v->resize(kDim);
    const float scale = static_cast<float>(1 / std::sqrt(double{kDim}));
    EXPECT_EQ(f.l2_norm(Row(q_, t, head, kHeads, kDim), kDim, 1e-6f, scale,
                        s.q.data()),
              KernelStatus::kOk);
    EXPECT_EQ(f.l2_norm(Row(k_, t, head, kHeads, kDim), kDim, 1e-6f, 1.0f,
                        s.k.data()),
              KernelStatus::kOk);
    const float* v = Row(v_, t, head, kHeads, kDim);
    s.v.assign(v, v + kDim);
    float a;
    f.exp(&a_log_[head], 1, &a);
    f.kda_decay(Row(raw_gate_, t, head, kHeads, kDim), &dt_bias_[head * kDim],
                kDim, a, -5.0f, s.decay.data());
    f.sigmoid(&beta_logit_[t * kHeads + head], 1, &s.beta);
    return s;
  }

  GoldenFile file_ = OpenGoldenOperator("kda");
  std::vector<float> q_, k_, v_, raw_gate_, a_log_, dt_bias_, beta_logit_;
  std::vector<float> state_;
};

void ExpectNear(const float* got, const double* want, size_t n, double tol,
                const char* what) {
  for (size_t i = 0; i < n; ++i) {
    ASSERT_NEAR(got[i], want[i], tol) << what << " element " << i;
  }
}

TEST_P(KdaGoldenTest, ThirtySevenTokensMatchTheGolden) {
  const auto want_out = file_.Get<double>("f64.out");
  const auto first_states = file_.Get<double>("f64.state_after_first_steps");
  const size_t state_size = size_t{kHeads} * kDim * kDim;
  for (int t = 0; t < kTokens; ++t) {
    for (int head = 0; head < kHeads; ++head) {
      std::vector<float> out(kDim);
      RunStep(target_->elementwise, Prepare(t, head),
              &state_[size_t(head) * kDim * kDim], out.data());
      ExpectNear(out.data(), &want_out[(t * kHeads + head) * kDim], kDim, 1e-5,
                 "out");
    }
    if (t < 5) {
      ExpectNear(state_.data(), &first_states[t * state_size], state_size, 1e-5,
                 "early state");
    }
  }
  const auto want_state = file_.Get<double>("f64.S_final");
  ExpectNear(state_.data(), want_state.data(), state_size, 1e-5, "final state");
}

TEST_P(KdaGoldenTest, GatesMatchTheGolden) {
  const auto log_decay = file_.Get<double>("f64.log_decay");
  const auto beta = file_.Get<double>("f64.beta");
  const auto q = file_.Get<double>("f64.q_scaled");
  const auto k = file_.Get<double>("f64.k_unit");
  for (int t = 0; t < kTokens; ++t) {
    for (int head = 0; head < kHeads; ++head) {
      const StepInputs s = Prepare(t, head);
      const size_t at = (size_t(t) * kHeads + head) * kDim;
      EXPECT_NEAR(s.beta, beta[t * kHeads + head], 1e-6);
      ExpectNear(s.q.data(), &q[at], kDim, 1e-6, "q");
      ExpectNear(s.k.data(), &k[at], kDim, 1e-6, "k");
      for (int i = 0; i < kDim; ++i) {
        ASSERT_NEAR(s.decay[i], std::exp(log_decay[at + i]), 1e-6);
      }
    }
  }
}

TEST_P(KdaGoldenTest, OutputNormMatchesTheGolden) {
  const GoldenFile file = OpenGoldenOperator("kda_out_norm");
  const auto o = file.Get<float>("o");
  const auto gate = file.Get<float>("gate");
  const auto weight = file.Get<float>("weight");
  const auto want = file.Get<double>("f64.out");
  const ElementwiseKernel& f = target_->elementwise;
  for (size_t at = 0; at < o.size(); at += kDim) {
    std::vector<float> y(kDim), g(kDim);
    ASSERT_EQ(f.rms_norm(&o[at], weight.data(), kDim, 1e-5f, y.data()),
              KernelStatus::kOk);
    f.sigmoid(&gate[at], kDim, g.data());
    f.multiply(y.data(), g.data(), kDim, y.data());
    ExpectNear(y.data(), &want[at], kDim, 2e-6, "out");
  }
}

DELTAFIN_FOR_EACH_TARGET(KdaTest);
DELTAFIN_FOR_EACH_TARGET(KdaGoldenTest);

}  // namespace
}  // namespace deltafin
