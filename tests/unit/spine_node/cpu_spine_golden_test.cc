// The CPU spine end to end against golden/tiny-a, the models of
// make_golden_models.py and the k3-nano evaluation.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/golden_file.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::vector<int32_t> Narrow(const std::vector<int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

// The folder's name without what a test's name may not hold.
std::string ModelName(const std::string& dir) {
  std::string name = dir.substr(dir.rfind('/') + 1);
  std::erase(name, '-');
  return name;
}

class GoldenModelTest : public ::testing::TestWithParam<const char*> {
 protected:
  GoldenFile golden_{std::string(GetParam()) + "/golden.safetensors"};
  std::vector<int32_t> prompt_ = Narrow(golden_.Get<int64_t>("prompt_ids"));
  SpineRun run_{GetParam()};
};

TEST_P(GoldenModelTest, LogitsOfEveryPositionAreWithinTolerance) {
  auto state = run_.NewSequence();
  const auto logits = run_.Feed(*state, prompt_, LogitsRows::kAll);
  ASSERT_TRUE(logits.ok()) << logits.status();
  const std::vector<double> expected = golden_.Get<double>("f64.logits");
  ASSERT_EQ(logits->size(), expected.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs((*logits)[i] - expected[i]));
  }
  EXPECT_LT(worst, 2e-3);
  RecordProperty("worst", std::to_string(worst));
}

TEST_P(GoldenModelTest, GreedyIdsAreEqual) {
  const auto expected = Narrow(golden_.Get<int64_t>("greedy_ids"));
  EXPECT_EQ(run_.Greedy(prompt_, expected.size()), expected);
}

TEST_P(GoldenModelTest, RouterIdsAreEqualAsSets) {
  int layers_seen = 0;
  run_.on_route = [&](int layer, const RoutedTokens& tokens) {
    ++layers_seen;
    auto expected = Narrow(
        golden_.Get<int64_t>("layer." + std::to_string(layer) + ".router_ids"));
    ASSERT_EQ(tokens.experts.size(), expected.size());
    for (size_t t = 0; t < expected.size(); t += tokens.top_k) {
      std::sort(expected.begin() + t, expected.begin() + t + tokens.top_k);
    }
    EXPECT_THAT(tokens.experts, ::testing::ElementsAreArray(expected))
        << "layer " << layer;
  };
  auto state = run_.NewSequence();
  ASSERT_TRUE(run_.Feed(*state, prompt_).ok());
  EXPECT_EQ(layers_seen, run_.spec().num_moe_layers());
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenModelTest,
    ::testing::Values(DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a",
                      DELTAFIN_GOLDEN_MODELS "/more-heads-than-dims",
                      DELTAFIN_GOLDEN_MODELS "/two-dense-layers",
                      DELTAFIN_GOLDEN_MODELS "/ragged-latent"),
    [](const auto& info) { return ModelName(info.param); });

TEST(NanoGoldenTest, GreedyIdsOfPromptsAreEqual) {
  const auto golden = ReadJson(kNanoDir + "/eval/golden.json");
  SpineRun run(kNanoDir);
  ASSERT_FALSE(golden["prompts"].empty());
  for (const auto& prompt : golden["prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const auto expected =
        prompt["float32"]["greedy"].get<std::vector<int32_t>>();
    EXPECT_EQ(run.Greedy(ids, expected.size()), expected) << prompt["text"];
  }
}

TEST(NanoGoldenTest, GreedyIdsOfChatPromptsAreEqual) {
  const auto golden = ReadJson(kNanoDir + "/eval/golden.json");
  SpineRun run(kNanoDir);
  ASSERT_FALSE(golden["chat_prompts"].empty());
  for (const auto& prompt : golden["chat_prompts"]) {
    const auto ids = prompt["ids"].get<std::vector<int32_t>>();
    const auto expected =
        prompt["float32"]["greedy"].get<std::vector<int32_t>>();
    EXPECT_EQ(run.Greedy(ids, expected.size()), expected);
  }
}

}  // namespace
}  // namespace deltafin::testing
