// Every layer of a golden model alone: golden inputs in, golden outputs out,
// for the bf16 and the int8 spine.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/cpu/attention_residual.h"
#include "spine_node/cpu/kda_attention.h"
#include "spine_node/cpu/latent_projection.h"
#include "spine_node/cpu/mla_attention.h"
#include "spine_node/cpu/mlp.h"
#include "spine_node/cpu/router.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/golden_file.h"
#include "tests/testing/local_experts.h"
#include "tests/testing/model_copy.h"

namespace deltafin::testing {
namespace {

struct Case {
  const char* name;
  const char* model_dir;
  SpinePrecision precision;
};

// Largest difference of one bf16 layer with f32 activations on values of size
// one: rounding alone gives about 1e-6.
constexpr double kBf16Tolerance = 2e-5;
// Root mean square of the difference against that of the values: a row of
// normal weights reaches about three deviations, so a step of 1/127 of that
// gives 0.7 % a product; a KDA head of 8 channels combines and divides by the
// results of five.
constexpr double kInt8Tolerance = 3e-2;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

class CpuLayersGoldenTest : public ::testing::TestWithParam<Case> {
 protected:
  CpuLayersGoldenTest()
      : weights_(ValueOrDie(LoadSpineWeights(Options()))),
        sequence_layout_(spec()),
        linear_(ValueOrDie(Linear::Create(BestKernel().linear, threads_,
                                          {.max_tokens = kTokenGroup,
                                           .max_cols = 512,
                                           .max_head_cols = 64}))),
        context_{spec(), BestKernel().elementwise, threads_, *linear_,
                 timings_},
        state_(ValueOrDie(
            CpuSequenceState::Create(sequence_layout_, num_tokens_, 0))),
        out_(ValueOrDie(FloatRows::Allocate(num_tokens_, spec().hidden_size))) {
    group_ = {.first_token = 0,
              .num_tokens = num_tokens_,
              .runs = {{.state = state_.get(), .num_tokens = num_tokens_}}};
  }

  SpineOptions Options() {
    SpineOptions options;
    options.model_dir = model_.path();
    options.precision = GetParam().precision;
    options.kernel = &BestKernel();
    options.threads = &threads_;
    return options;
  }

  const ModelSpec& spec() const { return weights_.spec; }

  std::vector<double> Golden(int layer, const std::string& name) const {
    return golden_.Get<double>("f64.layer." + std::to_string(layer) + "." +
                               name);
  }
  std::vector<double> GoldenState(int layer, const std::string& name) const {
    return golden_.Get<double>("f64.state." + std::to_string(layer) + "." +
                               name);
  }

  FloatRows Rows(const std::vector<double>& values) const {
    FloatRows rows = ValueOrDie(
        FloatRows::Allocate(num_tokens_, values.size() / num_tokens_));
    std::copy(values.begin(), values.end(), rows.row(0));
    return rows;
  }

  // RMSNorm of golden rows, as the layer's input.
  FloatRows Normalized(const std::vector<double>& values,
                       const float* norm) const {
    FloatRows rows = Rows(values);
    for (int t = 0; t < num_tokens_; ++t) {
      EXPECT_EQ(context_.ops.rms_norm(rows.row(t), norm, spec().hidden_size,
                                      spec().rms_norm_eps, rows.row(t)),
                KernelStatus::kOk);
    }
    return rows;
  }

  static void ExpectNear(const float* actual,
                         const std::vector<double>& expected) {
    double worst = 0, difference = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      const double d = actual[i] - expected[i];
      worst = std::max(worst, std::abs(d));
      difference += d * d;
      size += expected[i] * expected[i];
    }
    if (GetParam().precision == SpinePrecision::kBf16) {
      EXPECT_LT(worst, kBf16Tolerance);
    } else {
      EXPECT_LT(std::sqrt(difference / size), kInt8Tolerance);
    }
  }

  ModelCopy model_{GetParam().model_dir};
  GoldenFile golden_{model_.File("golden.safetensors")};
  const int num_tokens_ = golden_.Shape("prompt_ids")[0];
  ThreadPool threads_{2, "test"};
  SpineWeights weights_;
  SequenceLayout sequence_layout_;
  std::unique_ptr<Linear> linear_;
  SpineTimings timings_;
  LayerContext context_;
  std::unique_ptr<CpuSequenceState> state_;
  FloatRows out_;
  TokenGroup group_;
};

TEST_P(CpuLayersGoldenTest, KdaGivesGoldenOutputAndState) {
  auto kda = ValueOrDie(KdaAttention::Create(context_));
  int layers_seen = 0;
  for (int layer = 0; layer < spec().num_hidden_layers; ++layer) {
    if (spec().attention[layer] != AttentionKind::kKda) continue;
    SCOPED_TRACE(layer);
    ++layers_seen;
    const LayerWeights& weights = weights_.layers[layer];
    const FloatRows x =
        Normalized(Golden(layer, "attn_mix"), weights.input_norm);
    ASSERT_TRUE(
        kda->Forward(layer, weights.kda, x.row(0), group_, out_.row(0)).ok());
    ExpectNear(out_.row(0), Golden(layer, "attn_out"));

    const int dim = spec().kda_head_dim, heads = spec().kda_num_heads;
    const auto matrix = GoldenState(layer, "S");
    const std::vector<double> conv[3] = {GoldenState(layer, "conv_q"),
                                         GoldenState(layer, "conv_k"),
                                         GoldenState(layer, "conv_v")};
    for (int h = 0; h < heads; ++h) {
      const KdaHeadState head = state_->kda(layer, h);
      const auto begin = matrix.begin() + h * dim * dim;
      ExpectNear(head.matrix, {begin, begin + dim * dim});
      for (int c = 0; c < 3; ++c) {
        for (int j = 0; j < 3; ++j) {
          const auto row = conv[c].begin() + (j * heads + h) * dim;
          ExpectNear(head.history + (3 * c + j) * dim, {row, row + dim});
        }
      }
    }
  }
  EXPECT_GE(layers_seen, 3);
}

TEST_P(CpuLayersGoldenTest, MlaGivesGoldenOutputAndLatentCache) {
  auto mla = ValueOrDie(MlaAttention::Create(context_));
  int layers_seen = 0;
  for (int layer = 0; layer < spec().num_hidden_layers; ++layer) {
    if (spec().attention[layer] != AttentionKind::kMla) continue;
    SCOPED_TRACE(layer);
    ++layers_seen;
    const LayerWeights& weights = weights_.layers[layer];
    const FloatRows x =
        Normalized(Golden(layer, "attn_mix"), weights.input_norm);
    ASSERT_TRUE(
        mla->Forward(layer, weights.mla, x.row(0), group_, out_.row(0)).ok());
    ExpectNear(out_.row(0), Golden(layer, "attn_out"));

    const auto latent = GoldenState(layer, "latent");
    const auto rope = GoldenState(layer, "rope");
    const int latent_size = spec().kv_lora_rank;
    const int rope_size = spec().qk_rope_head_dim;
    const float* cached = state_->latents(layer);
    for (int t = 0; t < num_tokens_; ++t) {
      const auto l = latent.begin() + t * latent_size;
      const auto r = rope.begin() + t * rope_size;
      ExpectNear(cached, {l, l + latent_size});
      ExpectNear(cached + latent_size, {r, r + rope_size});
      cached += latent_size + rope_size;
    }
  }
  EXPECT_GE(layers_seen, 2);
}

TEST_P(CpuLayersGoldenTest, DenseMlpGivesGoldenOutput) {
  auto mlp = ValueOrDie(Mlp::Create(context_));
  for (int layer = 0; layer < spec().first_k_dense_replace; ++layer) {
    SCOPED_TRACE(layer);
    const LayerWeights& weights = weights_.layers[layer];
    const FloatRows x =
        Normalized(Golden(layer, "mlp_mix"), weights.post_attention_norm);
    ASSERT_TRUE(mlp->Forward(kDenseMlpNames, weights.dense,
                             {x.row(0), x.width(), num_tokens_}, out_.row(0))
                    .ok());
    ExpectNear(out_.row(0), Golden(layer, "mlp_out"));
  }
}

TEST_P(CpuLayersGoldenTest, MixtureLayersGiveGoldenRoutesAndOutput) {
  auto mlp = ValueOrDie(Mlp::Create(context_));
  auto router = ValueOrDie(Router::Create(context_));
  LocalExperts routed(model_.path(), BestKernel());
  const int top_k = spec().num_experts_per_token;
  const size_t latent_size = spec().routed_expert_hidden_size;
  for (int layer = spec().first_k_dense_replace;
       layer < spec().num_hidden_layers; ++layer) {
    SCOPED_TRACE(layer);
    const LayerWeights& weights = weights_.layers[layer];
    const FloatRows x =
        Normalized(Golden(layer, "mlp_mix"), weights.post_attention_norm);
    const Activations input = {x.row(0), x.width(), num_tokens_};

    std::vector<int32_t> ids(num_tokens_ * top_k);
    std::vector<float> route_weights(num_tokens_ * top_k);
    ASSERT_TRUE(
        router->Forward(weights.moe, input, ids.data(), route_weights.data())
            .ok());
    const std::string prefix = "layer." + std::to_string(layer);
    const auto golden_ids = golden_.Get<int64_t>(prefix + ".router_ids");
    const auto golden_weights = Golden(layer, "router_weights");
    for (int i = 0; i < num_tokens_ * top_k; ++i) {
      const int t = i / top_k * top_k;
      const auto found =
          std::find(ids.begin() + t, ids.begin() + t + top_k, golden_ids[i]);
      ASSERT_NE(found, ids.begin() + t + top_k) << "expert " << golden_ids[i];
      EXPECT_NEAR(route_weights[found - ids.begin()], golden_weights[i], 1e-6);
    }

    FloatRows latent =
        ValueOrDie(FloatRows::Allocate(num_tokens_, latent_size));
    ASSERT_TRUE(
        ProjectToLatent(context_, weights.moe, input, latent.row(0)).ok());
    const auto sums = ValueOrDie(routed.Run(
        layer, {.num_tokens = num_tokens_,
                .top_k = top_k,
                .experts = ids,
                .weights = route_weights,
                .latent = {latent.row(0), num_tokens_ * latent_size}}));
    ASSERT_TRUE(ProjectFromLatent(context_, weights.moe, sums, latent.row(0),
                                  out_.row(0))
                    .ok());
    FloatRows shared =
        ValueOrDie(FloatRows::Allocate(num_tokens_, spec().hidden_size));
    ASSERT_TRUE(mlp->Forward(kSharedExpertNames, weights.moe.shared, input,
                             shared.row(0))
                    .ok());
    context_.ops.add(out_.row(0), shared.row(0),
                     num_tokens_ * spec().hidden_size, out_.row(0));
    ExpectNear(out_.row(0), Golden(layer, "mlp_out"));
  }
}

// Golden values have no mixture before its norm except as the next operator's
// input, so the mixture is compared after the norm.
TEST_P(CpuLayersGoldenTest, AttentionResidualsMixSnapshotsAndPrefix) {
  std::vector<FloatRows> snapshots;
  snapshots.push_back(Rows(golden_.Get<double>("f64.embed")));
  for (int layer = 1; layer < spec().num_hidden_layers; ++layer) {
    SCOPED_TRACE(layer);
    const LayerWeights& weights = weights_.layers[layer];
    const FloatRows prefix = Rows(Golden(layer - 1, "prefix"));
    const ResidualSite site = {weights.attention_residual, weights.input_norm,
                               "self_attention_res", "input_layernorm"};
    ASSERT_TRUE(MixAndNormalize(context_, site,
                                {snapshots, prefix, 0, num_tokens_},
                                out_.row(0))
                    .ok());
    const FloatRows expected =
        Normalized(Golden(layer, "attn_mix"), weights.input_norm);
    ExpectNear(out_.row(0), {expected.row(0), expected.row(num_tokens_)});
    if (layer % spec().attn_res_block_size == 0) {
      snapshots.push_back(Rows(Golden(layer - 1, "prefix")));
    }
  }
  EXPECT_EQ(static_cast<int>(snapshots.size()), spec().num_snapshots());
}

constexpr char kTiny[] = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
constexpr char kMoreHeads[] = DELTAFIN_GOLDEN_MODELS "/more-heads-than-dims";
constexpr char kTwoDense[] = DELTAFIN_GOLDEN_MODELS "/two-dense-layers";
constexpr char kRagged[] = DELTAFIN_GOLDEN_MODELS "/ragged-latent";

INSTANTIATE_TEST_SUITE_P(
    Spines, CpuLayersGoldenTest,
    ::testing::Values(
        Case{"TinyBf16", kTiny, SpinePrecision::kBf16},
        Case{"TinyInt8", kTiny, SpinePrecision::kInt8},
        Case{"MoreHeadsThanDimsBf16", kMoreHeads, SpinePrecision::kBf16},
        Case{"MoreHeadsThanDimsInt8", kMoreHeads, SpinePrecision::kInt8},
        Case{"TwoDenseLayersBf16", kTwoDense, SpinePrecision::kBf16},
        Case{"TwoDenseLayersInt8", kTwoDense, SpinePrecision::kInt8},
        Case{"RaggedLatentBf16", kRagged, SpinePrecision::kBf16},
        Case{"RaggedLatentInt8", kRagged, SpinePrecision::kInt8}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace deltafin::testing
