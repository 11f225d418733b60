// What cannot be computed or loaded ends in a status that names the place.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";

// All values become the largest finite bf16.
void MakeHuge(std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); i += 2) {
    bytes[i] = 0x7f;
    bytes[i + 1] = 0x7f;
  }
}

struct Place {
  const char* tensor;  // behind the model's prefix
  const char* message;
};

class SpineErrorTest : public ::testing::TestWithParam<Place> {
 protected:
  ModelCopy model_{kTinyDir};
};

TEST_P(SpineErrorTest, OverflowNamesLayerOperatorAndPosition) {
  model_.EditTensor(std::string("language_model.") + GetParam().tensor,
                    MakeHuge);
  SpineRun run(model_.path(), {.num_threads = 2});
  auto state = run.NewSequence();
  const std::vector<int32_t> ids = {5, 6, 7};
  const auto logits = run.Feed(*state, ids, LogitsRows::kAll);
  EXPECT_TRUE(absl::IsOutOfRange(logits.status())) << logits.status();
  EXPECT_THAT(std::string(logits.status().message()),
              HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(logits.status().message()),
              HasSubstr("position 0 of sequence 0"));
}

INSTANTIATE_TEST_SUITE_P(
    Operators, SpineErrorTest,
    ::testing::Values(
        Place{"model.layers.0.self_attn.v_proj.weight",
              "layer 0 kda v_proj: overflow"},
        Place{"model.layers.1.self_attn.f_b_proj.weight",
              "layer 1 kda f_b_proj: overflow"},
        Place{"model.layers.0.mlp.down_proj.weight",
              "layer 0 mlp down_proj: overflow"},
        Place{"model.layers.3.self_attn.q_a_proj.weight",
              "layer 3 mla q_a_proj: overflow"},
        Place{"model.layers.7.self_attn.kv_b_proj.weight",
              "layer 7 mla kv_b_proj keys: overflow"},
        Place{"model.layers.4.block_sparse_moe.gate.weight",
              "layer 4 router: overflow"},
        Place{"model.layers.5.block_sparse_moe.shared_experts.up_proj.weight",
              "layer 5 shared_experts up_proj: overflow"},
        Place{"model.layers.6.block_sparse_moe.routed_expert_up_proj.weight",
              "layer 6 routed_expert_up_proj: overflow"},
        Place{"model.embed_tokens.weight",
              "layer 0 input_layernorm: inf or NaN"},
        Place{"lm_head.weight", "head lm_head: overflow"}));

TEST(SpineErrorPositionTest, NamesTheSequenceThatFailed) {
  ModelCopy model(kTinyDir);
  // Token 9 alone overflows.
  model.EditTensor("language_model.model.embed_tokens.weight",
                   [](std::span<uint8_t> bytes) {
                     MakeHuge(bytes.subspan(9 * 64 * 2, 64 * 2));
                   });
  SpineRun run(model.path());
  auto fine = run.NewSequence(), bad = run.NewSequence();
  const std::vector<int32_t> fine_ids = {1, 2, 3}, bad_ids = {4, 5, 9};
  const std::vector<SequenceSlice> slices = {{fine.get(), fine_ids},
                                             {bad.get(), bad_ids}};
  const auto logits = run.Step(slices);
  EXPECT_TRUE(absl::IsOutOfRange(logits.status())) << logits.status();
  EXPECT_THAT(std::string(logits.status().message()),
              HasSubstr("position 2 of sequence 1"));
  // The sequence beside it starts again and is right.
  ASSERT_EQ(*run.spine().TruncateTo(*fine, 3), 0);
  auto other = run.NewSequence();
  EXPECT_EQ(*run.Feed(*fine, fine_ids), *run.Feed(*other, fine_ids));
}

absl::Status LoadStatus(const std::string& model_dir) {
  ThreadPool threads(1, "test");
  SpineOptions options;
  options.model_dir = model_dir;
  options.kernel = &BestKernel();
  options.threads = &threads;
  return LoadCpuSpine(options).status();
}

TEST(SpineLoadErrorTest, InfinityAmongTheRoutersBiasesIsNamed) {
  ModelCopy model(kTinyDir);
  model.EditTensor(
      "language_model.model.layers.2.block_sparse_moe.gate."
      "e_score_correction_bias",
      [](std::span<uint8_t> bytes) {
        const float value = -std::numeric_limits<float>::infinity();
        std::memcpy(bytes.data() + 3 * sizeof(value), &value, sizeof(value));
      });
  const absl::Status status = LoadStatus(model.path());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layers.2.block_sparse_moe.gate.e_score_correction_bias"
                        ": value 3"));
}

TEST(SpineLoadErrorTest, MissingFolderIsNotFound) {
  const absl::Status status = LoadStatus("/nowhere/model");
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/model"));
}

TEST(SpineLoadErrorTest, MissingShardIsNamed) {
  ModelCopy model(kTinyDir);
  std::filesystem::remove(model.File("model-00003-of-000015.safetensors"));
  const absl::Status status = LoadStatus(model.path());
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model-00003-of-000015.safetensors"));
}

TEST(SpineLoadErrorTest, ConfigThatContradictsTheShardsNamesTheTensor) {
  ModelCopy model(kTinyDir);
  const std::string path = model.File("config.json");
  std::ifstream in(path);
  std::string config((std::istreambuf_iterator<char>(in)), {});
  const std::string from = "\"q_lora_rank\": 24";
  ASSERT_NE(config.find(from), std::string::npos);
  config.replace(config.find(from), from.size(), "\"q_lora_rank\": 32");
  std::ofstream(path) << config;
  const absl::Status status = LoadStatus(model.path());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("self_attn.q_"));
}

}  // namespace
}  // namespace deltafin::testing
