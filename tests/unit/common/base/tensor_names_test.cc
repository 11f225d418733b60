#include "common/base/tensor_names.h"

#include <fstream>
#include <memory>
#include <string>

#include "common/base/log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_model.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using testing::HasSubstr;

// All of K3: docs/model.md section 2 gives its bytes.
ModelSpec K3Spec() {
  ModelSpec spec = FullWidthSpec(93, 896);
  spec.vocab_size = 163840;
  return spec;
}

TEST(TensorNamesTest, AddUpToTheReleasedBytes) {
  const ModelSpec spec = K3Spec();
  uint64_t spine = 0;
  size_t count = 0;
  const auto add = [&](const std::vector<TensorSpec>& tensors) {
    for (const TensorSpec& tensor : tensors) spine += tensor.bytes();
    count += tensors.size();
  };
  add(GlobalTensors(spec));
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    add(LayerTensors(spec, layer));
  }
  EXPECT_EQ(spine, 113'509'540'864u);
  EXPECT_EQ(count, 2460u);
}

TEST(TensorNamesTest, ExpertsHaveTheirBytesInFileOrder) {
  const auto tensors = ExpertTensors(K3Spec(), {17, 803});
  uint64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) bytes += tensor.bytes();
  EXPECT_EQ(bytes, 17'547'264u);
  EXPECT_EQ(tensors[0].name,
            "language_model.model.layers.17.block_sparse_moe.experts.803.w1."
            "weight_packed");
  EXPECT_EQ(tensors[3].name,
            "language_model.model.layers.17.block_sparse_moe.experts.803.w2."
            "weight_scale");
  EXPECT_EQ(tensors[2].shape, (std::vector<int64_t>{3584, 1536}));
  for (size_t i = 1; i < tensors.size(); ++i) {
    EXPECT_LT(tensors[i - 1].name, tensors[i].name);
  }
}

TEST(TensorNamesTest, FindTensorsBySuffix) {
  const ModelSpec spec = K3Spec();
  EXPECT_EQ(GlobalTensor(spec, "lm_head.weight").name,
            "language_model.lm_head.weight");
  EXPECT_EQ(GlobalTensor(spec, "norm.weight").name,
            "language_model.model.norm.weight");
  const TensorSpec a_log = LayerTensor(spec, 0, "self_attn.A_log");
  EXPECT_EQ(a_log.shape, std::vector<int64_t>{128});
  EXPECT_EQ(a_log.dtype, DType::kF32);
  EXPECT_EQ(LayerTensor(spec, 92, "self_attn.kv_b_proj.weight").shape,
            (std::vector<int64_t>{24576, 512}));
}

TEST(TensorNamesDeathTest, AbortOnATensorTheLayerLacks) {
  EXPECT_DEATH(
      {
        InitLogging("test");
        LayerTensor(K3Spec(), 3, "self_attn.A_log");
      },
      "A_log");
}

TEST(ValidateCheckpointTest, AcceptsTheFixtures) {
  for (const char* dir : {"/tests/golden/tiny-a", "/deploy/models/k3-nano"}) {
    const std::string model = std::string(DELTAFIN_SOURCE_DIR) + dir;
    const auto spec = ModelSpec::Load(model);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto checkpoint = Checkpoint::Open(model);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const absl::Status status = ValidateCheckpoint(*spec, **checkpoint);
    EXPECT_TRUE(status.ok()) << status;
  }
}

class ContradictingConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.spec = TinySpec(4, 6);
    ASSERT_TRUE(MakeSyntheticModel(options_, dir_.path()).ok());
    auto checkpoint = Checkpoint::Open(dir_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
  }
  void ExpectRefused(const ModelSpec& spec, const char* part) {
    const std::string message(ValidateCheckpoint(spec, *checkpoint_).message());
    EXPECT_THAT(message, HasSubstr("config.json"));
    EXPECT_THAT(message, HasSubstr(part));
  }

  TempDir dir_;
  SyntheticModelOptions options_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(ContradictingConfigTest, IsRefusedWithFileAndTensor) {
  EXPECT_TRUE(ValidateCheckpoint(options_.spec, *checkpoint_).ok());
  ModelSpec spec = options_.spec;
  spec.intermediate_size = 192;
  ExpectRefused(spec,
                "model-00001-of-000005.safetensors: tensor "
                "language_model.model.layers.0.mlp.gate_proj.weight is BF16 "
                "[160, 64], but config.json asks for BF16 [192, 64]");
}

TEST_F(ContradictingConfigTest, IsRefusedWhenTheShardsHoldLess) {
  ModelSpec spec = options_.spec;
  spec.num_hidden_layers = 5;
  spec.attention.push_back(AttentionKind::kMla);
  ExpectRefused(spec, "layers.4.");
}

TEST_F(ContradictingConfigTest, IsRefusedWhenTheShardsHoldMore) {
  ModelSpec fewer_layers = options_.spec;
  fewer_layers.num_hidden_layers = 3;
  fewer_layers.attention.pop_back();
  ExpectRefused(fewer_layers, "the shards hold tensor");
  ExpectRefused(fewer_layers, "layers.3.");
}

TEST_F(ContradictingConfigTest, IsRefusedWhenALayerIsOfAnotherKind) {
  ModelSpec spec = options_.spec;
  spec.attention[1] = AttentionKind::kMla;
  ExpectRefused(spec, "layers.1.self_attn.q_a_proj.weight");
}

}  // namespace
}  // namespace deltafin
