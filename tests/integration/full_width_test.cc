// A model with the released dimensions (7168, 3584, 3072, 96 heads): the same
// bits over any nodes, and layers that agree with the reference. Makes 7 GB in
// the working folder for as long as it runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "spine_node/cpu/kda_attention.h"
#include "spine_node/cpu/latent_projection.h"
#include "spine_node/cpu/mla_attention.h"
#include "spine_node/cpu/mlp.h"
#include "spine_node/cpu/router.h"
#include "spine_node/spine_loader.h"
#include "tests/integration/deltafin_program.h"
#include "tests/testing/golden_file.h"
#include "tests/testing/local_experts.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_model.h"

namespace deltafin::testing {
namespace {

// Dense KDA, two KDA with experts, MLA with experts.
constexpr int kLayers = 4;
constexpr int kExperts = 24;
constexpr int kTokens = 2;
constexpr char kReferenceIds[] = "5,6";

// Root mean square of the difference to the float64 reference against that of
// the reference. A dot product of n terms in 16 lanes of float32 errs by about
// sqrt(n / 16) half units, 1.3e-6 of its size at the longest (n = 33,792); a
// layer chains at most six of them with norms between.
constexpr double kLayerTolerance = 1e-5;
// Largest difference of a logit of size 10: four layers, their mixtures and the
// head.
constexpr double kLogitTolerance = 2e-3;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

// The model and its reference outputs; they live as long as the object.
class FullWidthModel {
 public:
  FullWidthModel() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FullWidthModel() { std::filesystem::remove_all(folder_); }
  FullWidthModel(const FullWidthModel&) = delete;
  FullWidthModel& operator=(const FullWidthModel&) = delete;

  std::string File(const std::string& name) const {
    return folder_ + "/" + name;
  }
  std::string dir() const { return File("model"); }
  std::string reference() const { return File("reference.safetensors"); }

  void Make() {
    SyntheticModelOptions options;
    options.spec = FullWidthSpec(kLayers, kExperts);
    const absl::Status made = MakeSyntheticModel(options, dir());
    ASSERT_TRUE(made.ok()) << made;
    const auto run = RunProcess(
        {"/usr/bin/python3",
         DELTAFIN_SOURCE_DIR "/tests/testing/full_width_reference.py", dir(),
         reference(), kReferenceIds},
        absl::Minutes(30));
    ASSERT_TRUE(run.ok()) << run.status();
    ASSERT_EQ(run->exit_code, 0) << run->err;
  }

 private:
  const std::string folder_ =
      std::filesystem::current_path().string() + "/full_width_model";
};

// Three tokens; the output's hash covers their ids and all logits.
nlohmann::json RunModel(const FullWidthModel& model, const Words& more) {
  const Words words{"run",
                    "--model",
                    model.dir(),
                    "--prompt-ids",
                    "5,6,7",
                    "--ignore-eos",
                    "--stats",
                    "--max-new-tokens",
                    "3",
                    "--dump-logits",
                    model.File("run.safetensors")};
  return RunDeltafinJson(Join(words, more), absl::Minutes(15));
}

void ExpectTwoNodesGiveTheBitsOfOneProcess(const FullWidthModel& model) {
  const std::vector<Words> spines = {{"--spine", "bf16"}, {"--spine", "int8"}};
  const auto nodes = MiniCluster::Start(
      {.num_nodes = 2, .model_dir = model.dir(), .flags = {"--threads", "1"}});
  ASSERT_TRUE(nodes.ok()) << nodes.status();
  for (const Words& spine : spines) {
    SCOPED_TRACE(spine[1]);
    const nlohmann::json alone = RunModel(model, spine);
    const nlohmann::json split =
        RunModel(model, Join(spine, {"--nodes", (*nodes)->addresses()}));
    ASSERT_TRUE(alone.is_object() && split.is_object());
    EXPECT_EQ(alone["output_ids"].size(), 3u);
    EXPECT_EQ(alone["output_sha256"], split["output_sha256"]);
    EXPECT_EQ(split["stats"]["nodes"].size(), 2u);
    for (const nlohmann::json& node : split["stats"]["nodes"]) {
      EXPECT_GT(node["slices_computed"], 0) << node;
    }
  }
}

void ExpectLogitsAgreeWithTheReference(const FullWidthModel& model) {
  const std::string dump = model.File("logits.safetensors");
  const nlohmann::json report = RunDeltafinJson(
      {"run", "--model", model.dir(), "--prompt-ids", kReferenceIds,
       "--max-new-tokens", "1", "--ignore-eos", "--dump-logits", dump},
      absl::Minutes(15));
  ASSERT_TRUE(report.is_object());
  const auto expected = GoldenFile(model.reference()).Get<double>("logits");
  const auto actual = GoldenFile(dump).Get<float>("logits");
  ASSERT_EQ(actual.size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  EXPECT_LT(worst, kLogitTolerance);
}

// The layers' own classes on the reference's inputs.
class FullWidthLayers {
 public:
  explicit FullWidthLayers(const FullWidthModel& model)
      : model_(model),
        weights_(ValueOrDie(LoadSpineWeights(Options()))),
        linear_(ValueOrDie(Linear::Create(BestKernel().linear, threads_,
                                          {.max_tokens = kTokenGroup,
                                           .max_cols = 33792,
                                           .max_head_cols = 7168}))),
        state_(
            ValueOrDie(CpuSequenceState::Create(sequence_layout_, kTokens, 0))),
        out_(ValueOrDie(
            FloatRows::Allocate(kTokens, weights_.spec.hidden_size))) {
    group_ = {.first_token = 0,
              .num_tokens = kTokens,
              .runs = {{.state = state_.get(), .num_tokens = kTokens}}};
  }

  void ExpectKda(int layer);
  void ExpectMla(int layer);
  void ExpectDense(int layer);
  void ExpectMixture(int layer);

 private:
  SpineOptions Options() {
    SpineOptions options;
    options.model_dir = model_.dir();
    options.kernel = &BestKernel();
    options.threads = &threads_;
    return options;
  }

  std::vector<double> Reference(int layer, const std::string& name) const {
    return reference_.Get<double>("layer." + std::to_string(layer) + "." +
                                  name);
  }

  // RMSNorm of a reference mixture, as the operator's input.
  FloatRows Input(int layer, const std::string& mixture,
                  const float* norm) const {
    const std::vector<double> values = Reference(layer, mixture);
    const int width = weights_.spec.hidden_size;
    FloatRows rows = ValueOrDie(FloatRows::Allocate(kTokens, width));
    std::copy(values.begin(), values.end(), rows.row(0));
    for (int t = 0; t < kTokens; ++t) {
      EXPECT_EQ(context_.ops.rms_norm(rows.row(t), norm, width,
                                      weights_.spec.rms_norm_eps, rows.row(t)),
                KernelStatus::kOk);
    }
    return rows;
  }

  void ExpectOutput(int layer, const std::string& name) const {
    const std::vector<double> expected = Reference(layer, name);
    double difference = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(out_.row(0)[i] - expected[i], 2);
      size += expected[i] * expected[i];
    }
    ASSERT_GT(size, 0);
    const double relative = std::sqrt(difference / size);
    std::printf("layer %d %s differs by %.2e\n", layer, name.c_str(), relative);
    EXPECT_LT(relative, kLayerTolerance) << "layer " << layer << " " << name;
  }

  const FullWidthModel& model_;
  const GoldenFile reference_{model_.reference()};
  ThreadPool threads_{2, "test"};
  const SpineWeights weights_;
  const SequenceLayout sequence_layout_{weights_.spec};
  const std::unique_ptr<Linear> linear_;
  SpineTimings timings_;
  const LayerContext context_{weights_.spec, BestKernel().elementwise, threads_,
                              *linear_, timings_};
  const std::unique_ptr<CpuSequenceState> state_;
  FloatRows out_;
  TokenGroup group_;
};

void FullWidthLayers::ExpectKda(int layer) {
  const auto kda = ValueOrDie(KdaAttention::Create(context_));
  const LayerWeights& weights = weights_.layers[layer];
  const FloatRows x = Input(layer, "attn_mix", weights.input_norm);
  ASSERT_TRUE(
      kda->Forward(layer, weights.kda, x.row(0), group_, out_.row(0)).ok());
  ExpectOutput(layer, "attn_out");
}

void FullWidthLayers::ExpectMla(int layer) {
  const auto mla = ValueOrDie(MlaAttention::Create(context_));
  const LayerWeights& weights = weights_.layers[layer];
  const FloatRows x = Input(layer, "attn_mix", weights.input_norm);
  ASSERT_TRUE(
      mla->Forward(layer, weights.mla, x.row(0), group_, out_.row(0)).ok());
  ExpectOutput(layer, "attn_out");
}

void FullWidthLayers::ExpectDense(int layer) {
  const auto mlp = ValueOrDie(Mlp::Create(context_));
  const LayerWeights& weights = weights_.layers[layer];
  const FloatRows x = Input(layer, "mlp_mix", weights.post_attention_norm);
  ASSERT_TRUE(mlp->Forward(kDenseMlpNames, weights.dense,
                           {x.row(0), x.width(), kTokens}, out_.row(0))
                  .ok());
  ExpectOutput(layer, "mlp_out");
}

void FullWidthLayers::ExpectMixture(int layer) {
  const ModelSpec& spec = weights_.spec;
  const auto mlp = ValueOrDie(Mlp::Create(context_));
  const auto router = ValueOrDie(Router::Create(context_));
  LocalExperts routed(model_.dir(), BestKernel());
  const MoeWeights& moe = weights_.layers[layer].moe;
  const FloatRows x =
      Input(layer, "mlp_mix", weights_.layers[layer].post_attention_norm);
  const Activations input = {x.row(0), x.width(), kTokens};

  const int top_k = spec.num_experts_per_token;
  std::vector<int32_t> ids(kTokens * top_k);
  std::vector<float> route_weights(kTokens * top_k);
  ASSERT_TRUE(
      router->Forward(moe, input, ids.data(), route_weights.data()).ok());
  auto golden_ids =
      reference_.Get<int64_t>("layer." + std::to_string(layer) + ".router_ids");
  for (int t = 0; t < kTokens; ++t) {
    const auto row = golden_ids.begin() + t * top_k;
    std::sort(row, row + top_k);
  }
  ASSERT_EQ(std::vector<int64_t>(ids.begin(), ids.end()), golden_ids);

  const size_t width = spec.routed_expert_hidden_size;
  FloatRows latent = ValueOrDie(FloatRows::Allocate(kTokens, width));
  ASSERT_TRUE(ProjectToLatent(context_, moe, input, latent.row(0)).ok());
  const auto sums = ValueOrDie(
      routed.Run(layer, {.num_tokens = kTokens,
                         .top_k = top_k,
                         .experts = ids,
                         .weights = route_weights,
                         .latent = {latent.row(0), kTokens * width}}));
  ASSERT_TRUE(
      ProjectFromLatent(context_, moe, sums, latent.row(0), out_.row(0)).ok());
  FloatRows shared = ValueOrDie(FloatRows::Allocate(kTokens, spec.hidden_size));
  ASSERT_TRUE(
      mlp->Forward(kSharedExpertNames, moe.shared, input, shared.row(0)).ok());
  context_.ops.add(out_.row(0), shared.row(0), kTokens * spec.hidden_size,
                   out_.row(0));
  ExpectOutput(layer, "mlp_out");
}

// One case: each would be a process of its own that makes the model again.
TEST(FullWidthTest, NodesGiveTheSameBitsAndLayersAgreeWithTheReference) {
  FullWidthModel model;
  ASSERT_NO_FATAL_FAILURE(model.Make());
  ExpectTwoNodesGiveTheBitsOfOneProcess(model);
  ExpectLogitsAgreeWithTheReference(model);
  FullWidthLayers layers(model);
  layers.ExpectKda(0);
  layers.ExpectKda(1);
  layers.ExpectMla(3);
  layers.ExpectDense(0);
  layers.ExpectMixture(1);
  layers.ExpectMixture(3);
}

}  // namespace
}  // namespace deltafin::testing
