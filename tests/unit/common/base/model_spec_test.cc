#include "common/base/model_spec.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/fmt/fmt.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kTinyA = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";

json TinyConfig() {
  return json::parse(std::ifstream(kTinyA + "/config.json"));
}

std::string MessageOf(const std::string& config) {
  const auto spec = ModelSpec::Parse(config);
  if (spec.ok()) return "accepted";
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(spec.status().message());
}

std::string MessageOf(const json& config) { return MessageOf(config.dump()); }

TEST(ModelSpecTest, ReadsTinyA) {
  const auto spec = ModelSpec::Load(kTinyA);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->vocab_size, 640);
  EXPECT_EQ(spec->hidden_size, 64);
  EXPECT_EQ(spec->num_hidden_layers, 13);
  EXPECT_EQ(spec->intermediate_size, 160);
  EXPECT_EQ(spec->attn_res_block_size, 5);
  EXPECT_EQ(spec->num_snapshots(), 3);
  EXPECT_EQ(spec->max_position_embeddings, 4096);
  EXPECT_EQ(spec->rms_norm_eps, 1e-5f);
  EXPECT_EQ(spec->low_rank_norm_eps, 1e-6f);
  EXPECT_EQ(spec->kda_width(), 96);
  EXPECT_EQ(spec->gate_lower_bound, -5.0f);
  EXPECT_EQ(spec->num_experts, 24);
  EXPECT_EQ(spec->num_experts_per_token, 4);
  EXPECT_EQ(spec->expert_shape(), (ExpertShape{32, 64}));
  EXPECT_EQ(spec->situ.beta, 4.0f);
  EXPECT_EQ(spec->situ.linear_beta, 25.0f);
  EXPECT_EQ(spec->bos_token_id, 384);
  EXPECT_EQ(spec->eos_token_id, 386);
  EXPECT_EQ(spec->pad_token_id, 639);
}

TEST(ModelSpecTest, ConvertsTheOneBasedLists) {
  const auto spec = ModelSpec::Load(kTinyA);
  ASSERT_TRUE(spec.ok()) << spec.status();
  for (int layer = 0; layer < 13; ++layer) {
    const bool mla = layer == 3 || layer == 7 || layer == 11 || layer == 12;
    EXPECT_EQ(spec->attention[layer] == AttentionKind::kMla, mla) << layer;
    EXPECT_EQ(spec->is_moe(layer), layer >= 1);
  }
  EXPECT_EQ(spec->num_moe_layers(), 12);
}

TEST(ModelSpecTest, ReadsK3Nano) {
  const auto spec =
      ModelSpec::Load(DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->expert_shape(), (ExpertShape{96, 32}));
}

TEST(ModelSpecTest, ReadsBackWhatTheGeneratorWrites) {
  for (const ModelSpec& made : {TinySpec(5, 8), FullWidthSpec(4, 24)}) {
    const auto spec = ModelSpec::Parse(ConfigJson(made));
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(ConfigJson(*spec), ConfigJson(made));
    EXPECT_EQ(spec->attention, made.attention);
    EXPECT_EQ(spec->rms_norm_eps, made.rms_norm_eps);
  }
}

TEST(ModelSpecTest, RefusesADifferentFixedFieldByName) {
  const std::string text = "/text_config/";
  const std::string linear = text + "linear_attn_config/";
  const std::string quant = text + "quantization_config/";
  const std::string weights = quant + "config_groups/group_0/weights/";
  const std::pair<std::string, json> changes[] = {
      {"/model_type", "kimi_k2"},
      {"/tie_word_embeddings", true},
      {text + "model_type", "llama"},
      {text + "hidden_act", "silu"},
      {text + "moe_router_activation_func", "softmax"},
      {text + "moe_renormalize", false},
      {text + "topk_method", "greedy"},
      {text + "num_expert_group", 2},
      {text + "topk_group", 2},
      {text + "moe_layer_freq", 2},
      {text + "mla_use_nope", false},
      {text + "mla_use_output_gate", false},
      {text + "latent_moe_use_norm", false},
      {text + "tie_word_embeddings", true},
      {text + "num_nextn_predict_layers", 1},
      {text + "num_key_value_heads", 3},
      {linear + "use_full_rank_gate", false},
      {linear + "short_conv_kernel_size", 3},
      {quant + "quant_method", "gptq"},
      {quant + "format", "nvfp4-pack-quantized"},
      {quant + "kv_cache_scheme", json::object()},
      {weights + "num_bits", 8},
      {weights + "group_size", 16},
      {weights + "type", "int"},
      {weights + "symmetric", false},
  };
  for (const auto& [pointer, value] : changes) {
    json config = TinyConfig();
    config[json::json_pointer(pointer)] = value;
    std::string dotted = pointer.substr(1);
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    EXPECT_THAT(MessageOf(config), HasSubstr(dotted + " is " + value.dump()));
  }
}

TEST(ModelSpecTest, RefusesAMissingFieldByName) {
  for (const char* key :
       {"hidden_size", "num_experts", "rms_norm_eps", "hidden_act",
        "linear_attn_config", "quantization_config", "activation_situ_beta"}) {
    json config = TinyConfig();
    config["text_config"].erase(key);
    EXPECT_THAT(MessageOf(config),
                HasSubstr(std::string("text_config.") + key));
    EXPECT_THAT(MessageOf(config), HasSubstr("is missing"));
  }
}

TEST(ModelSpecTest, RefusesNumbersOutsideTheirRanges) {
  const std::pair<const char*, json> changes[] = {
      {"hidden_size", 0},
      {"hidden_size", -64},
      {"hidden_size", 64.5},
      {"hidden_size", 64.0},
      {"hidden_size", "64"},
      {"hidden_size", nullptr},
      {"hidden_size", 4294967360},
      {"hidden_size", 18446744073709551615u},
      {"hidden_size", 1e300},
      {"vocab_size", 2147483648},
      {"num_hidden_layers", 100000},
      {"num_experts", 0},
      {"moe_intermediate_size", 48},
      {"routed_expert_hidden_size", 33},
      {"rms_norm_eps", 0},
      {"rms_norm_eps", -1e-5},
      {"rms_norm_eps", 1e-300},
      {"activation_situ_beta", 0},
      {"activation_situ_linear_beta", 1e30},
      {"routed_scaling_factor", false},
      {"max_position_embeddings", 0},
      {"attn_res_block_size", 0},
      {"mla_lora_norm_eps", 2},
  };
  for (const auto& [key, value] : changes) {
    json config = TinyConfig();
    config["text_config"][key] = value;
    EXPECT_THAT(MessageOf(config),
                HasSubstr(fmt::format("text_config.{} is ", key)))
        << value;
  }
}

TEST(ModelSpecTest, TakesFreeNumbersFromTheConfig) {
  json config = TinyConfig();
  config["text_config"]["activation_situ_beta"] = 3;
  config["text_config"].erase("activation_situ_linear_beta");
  config["text_config"]["mla_lora_norm_eps"] = 1e-5;
  config["text_config"]["linear_attn_config"]["gate_lower_bound"] = -7.5;
  config["text_config"]["routed_scaling_factor"] = 2.5;
  config["text_config"]["first_k_dense_replace"] = 2;
  const auto spec = ModelSpec::Parse(config.dump());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->situ.beta, 3.0f);
  EXPECT_EQ(spec->situ.linear_beta, 0.0f);
  EXPECT_EQ(spec->low_rank_norm_eps, 1e-5f);
  EXPECT_EQ(spec->gate_lower_bound, -7.5f);
  EXPECT_EQ(spec->routed_scaling_factor, 2.5f);
  EXPECT_EQ(spec->num_moe_layers(), 11);
}

TEST(ModelSpecTest, IgnoresUnknownKeysButRefusesRope) {
  json config = TinyConfig();
  config["image_token"] = "x";
  config["text_config"]["something_new"] = {1, 2, 3};
  config["vision_config"]["rope_theta"] = 10000;
  EXPECT_EQ(MessageOf(config), "accepted");
  for (const char* pointer :
       {"/rope_theta", "/text_config/rope_scaling", "/text_config/rope_theta",
        "/text_config/linear_attn_config/rope_dim"}) {
    json rope = TinyConfig();
    rope[json::json_pointer(pointer)] = 10000;
    EXPECT_THAT(MessageOf(rope), HasSubstr("rope_")) << pointer;
    EXPECT_THAT(MessageOf(rope), HasSubstr("rotary")) << pointer;
  }
}

TEST(ModelSpecTest, RefusesListsThatDoNotPartitionTheLayers) {
  const auto message = [](const char* list, const json& layers) {
    json config = TinyConfig();
    config["text_config"]["linear_attn_config"][list] = layers;
    return MessageOf(config);
  };
  EXPECT_THAT(message("full_attn_layers", {4, 8, 12}),
              HasSubstr("layer 13 (one-based) is in neither"));
  EXPECT_THAT(message("full_attn_layers", {3, 4, 8, 12, 13}),
              HasSubstr("layer 3 (one-based) is named twice"));
  EXPECT_THAT(message("full_attn_layers", {4, 4, 8, 12, 13}),
              HasSubstr("layer 4 (one-based) is named twice"));
  EXPECT_THAT(message("full_attn_layers", {4, 8, 12, 13, 14}),
              HasSubstr("full_attn_layers.4 is 14"));
  EXPECT_THAT(message("kda_layers", {0, 1, 2, 3, 5, 6, 7, 9, 10, 11}),
              HasSubstr("kda_layers.0 is 0"));
  EXPECT_THAT(message("kda_layers", "all"), HasSubstr("a list"));
}

TEST(ModelSpecTest, RefusesMoreTermsThanASumHolds) {
  json config = TinyConfig();
  config["text_config"]["moe_intermediate_size"] = 64 * 256;
  EXPECT_EQ(MessageOf(config), "accepted");  // 4 * 64 = 256
  config["text_config"]["moe_intermediate_size"] = 64 * 256 + 32;
  EXPECT_THAT(MessageOf(config), HasSubstr("260 terms"));
}

TEST(ModelSpecTest, RefusesFieldsThatContradictEachOther) {
  json experts = TinyConfig();
  experts["text_config"]["num_experts"] = 3;
  EXPECT_THAT(MessageOf(experts), HasSubstr("more than num_experts 3"));
  json dense = TinyConfig();
  dense["text_config"]["first_k_dense_replace"] = 14;
  EXPECT_THAT(MessageOf(dense), HasSubstr("first_k_dense_replace is 14"));
  json ids = TinyConfig();
  ids["text_config"]["eos_token_id"] = 385;
  EXPECT_THAT(MessageOf(ids), HasSubstr("eos_token_id is 386"));
  json outside = TinyConfig();
  outside["bos_token_id"] = 640;
  EXPECT_THAT(MessageOf(outside), HasSubstr("bos_token_id is 640"));
}

TEST(ModelSpecTest, RefusesWhatIsNoGoodJson) {
  EXPECT_THAT(MessageOf(std::string()), HasSubstr("not valid JSON"));
  EXPECT_THAT(MessageOf(std::string("[]")), HasSubstr("not a JSON object"));
  EXPECT_THAT(MessageOf(std::string("{\"a\": \"\xff\"}")),
              HasSubstr("not valid JSON"));
  EXPECT_THAT(MessageOf(std::string(100'000, '[')),
              HasSubstr("not valid JSON"));
  std::string twice = TinyConfig().dump();
  twice.insert(1, "\"model_type\":\"kimi_k3\",");
  EXPECT_THAT(MessageOf(twice), HasSubstr("model_type appears twice"));
}

TEST(ModelSpecTest, NamesTheFile) {
  TempDir dir;
  const absl::Status missing = ModelSpec::Load(dir.path()).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr(dir.File("config.json")));
  std::ofstream(dir.File("config.json")) << "{}";
  const absl::Status bad = ModelSpec::Load(dir.path()).status();
  EXPECT_THAT(std::string(bad.message()), HasSubstr(dir.File("config.json")));
}

}  // namespace
}  // namespace deltafin
