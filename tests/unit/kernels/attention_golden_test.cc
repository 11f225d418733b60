// MLA in absorbed form and attention residuals against tests/golden/ops on
// every target.
#include <gtest/gtest.h>

#include "tests/testing/golden_file.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_definition.h"

namespace deltafin {
namespace {

using ::deltafin::testing::GoldenFile;
using ::deltafin::testing::OpenGoldenOperator;

// y = x W^T with the f32 matrix W [rows, cols] given by at(row, col).
template <typename At>
std::vector<float> Multiply(const LinearKernel& kernel, int rows, int cols,
                            At at, const std::vector<float>& x) {
  LinearCase c;
  c.format = WeightFormat::kF32;
  c.rows = rows;
  c.cols = cols;
  for (int r = 0; r < rows; ++r) {
    for (int k = 0; k < cols; ++k) c.weights.push_back(at(r, k));
  }
  PackLinearCase(&c);
  KernelStatus status;
  auto y =
      KernelProduct(kernel, c, x, static_cast<int>(x.size()) / cols, &status);
  EXPECT_EQ(status, KernelStatus::kOk);
  return y;
}

class AttentionGoldenTest : public KernelTargetTest {};

// tests/golden/ops/mla_core.
class MlaGoldenTest : public AttentionGoldenTest {
 protected:
  static constexpr int kHeads = 3, kNope = 8, kRope = 4, kValue = 8;
  static constexpr int kRank = 16, kTokens = 11, kKey = kRank + kRope;

  // Cache rows: latent, then rope.
  std::vector<float> Keys() const {
    const auto latent = file_.Get<float>("latent");
    const auto rope = file_.Get<float>("k_rope");
    std::vector<float> keys;
    for (int t = 0; t < kTokens; ++t) {
      keys.insert(keys.end(), &latent[t * kRank], &latent[t * kRank] + kRank);
      keys.insert(keys.end(), &rope[t * kRope], &rope[t * kRope] + kRope);
    }
    return keys;
  }

  // Weight of kv_b: head, key (0) or value (1) half, row in the half, column.
  float KvB(int head, int half, int row, int col) const {
    return kv_b_[((head * 2 + half) * 8 + row) * kRank + col];
  }

  // Absorbed queries of one token: (q_nope Wk[h], q_rope) for every head.
  std::vector<float> Queries(const float* q) const {
    std::vector<float> queries;
    for (int h = 0; h < kHeads; ++h, q += kNope + kRope) {
      const auto latent = Multiply(
          target_->linear, kRank, kNope,
          [&](int r, int k) { return KvB(h, 0, k, r); },
          std::vector<float>(q, q + kNope));
      queries.insert(queries.end(), latent.begin(), latent.end());
      queries.insert(queries.end(), q + kNope, q + kNope + kRope);
    }
    return queries;
  }

  const GoldenFile file_ = OpenGoldenOperator("mla_core");
  const std::vector<float> kv_b_ = file_.Get<float>("kv_b");
};

TEST_P(MlaGoldenTest, AbsorbedAttentionMatches) {
  const auto q = file_.Get<float>("q");
  const auto want = file_.Get<double>("f64.out");
  const auto keys = Keys();
  const auto scale = static_cast<float>(1 / std::sqrt(double{kNope + kRope}));
  for (int t = 0; t < kTokens; ++t) {
    const auto queries = Queries(&q[t * kHeads * (kNope + kRope)]);
    std::vector<float> latent(kHeads * kRank), scores(kHeads * kTokens);
    target_->elementwise.attention({.num_queries = kHeads,
                                    .query = queries.data(),
                                    .keys = keys.data(),
                                    .key_dim = kKey,
                                    .value_dim = kRank,
                                    .num_positions = t + 1,
                                    .scale = scale,
                                    .scores = scores.data(),
                                    .out = latent.data()});
    for (int h = 0; h < kHeads; ++h) {
      const auto out = Multiply(
          target_->linear, kValue, kRank,
          [&](int r, int k) { return KvB(h, 1, r, k); },
          std::vector<float>(&latent[h * kRank], &latent[h * kRank] + kRank));
      for (int i = 0; i < kValue; ++i) {
        ASSERT_NEAR(out[i], want[(t * kHeads + h) * kValue + i], 1e-5)
            << "token " << t << " head " << h;
      }
    }
  }
}

TEST_P(AttentionGoldenTest, ResidualsMatch) {
  const GoldenFile file = OpenGoldenOperator("attn_res");
  const auto blocks = file.Get<float>("blocks");
  const auto prefix = file.Get<float>("prefix");
  const auto norm = file.Get<float>("norm_weight");
  const auto proj = file.Get<float>("proj_weight");
  const auto want = file.Get<double>("f64.out");
  const int hidden = 24, tokens = 7, snapshots = 3;
  const ElementwiseKernel& f = target_->elementwise;
  std::vector<float> nw(hidden), out(hidden);
  f.multiply(norm.data(), proj.data(), hidden, nw.data());
  for (int t = 0; t < tokens; ++t) {
    std::vector<const float*> candidates;
    for (int b = 0; b < snapshots; ++b) {
      candidates.push_back(&blocks[(b * tokens + t) * hidden]);
    }
    candidates.push_back(&prefix[t * hidden]);
    ASSERT_EQ(f.attention_residual(candidates.data(), snapshots + 1, nw.data(),
                                   hidden, 1e-5f, out.data()),
              KernelStatus::kOk);
    for (int i = 0; i < hidden; ++i) {
      ASSERT_NEAR(out[i], want[t * hidden + i], 1e-5) << "token " << t;
    }
  }
}

DELTAFIN_FOR_EACH_TARGET(MlaGoldenTest);
DELTAFIN_FOR_EACH_TARGET(AttentionGoldenTest);

}  // namespace
}  // namespace deltafin
