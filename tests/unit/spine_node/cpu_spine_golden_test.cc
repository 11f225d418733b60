// The CPU spine end to end against golden/tiny-a and the k3-nano evaluation.
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

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::vector<int32_t> Narrow(const std::vector<int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

class TinyGoldenTest : public ::testing::Test {
 protected:
  GoldenFile golden_{kTinyDir + "/golden.safetensors"};
  std::vector<int32_t> prompt_ = Narrow(golden_.Get<int64_t>("prompt_ids"));
};

TEST_F(TinyGoldenTest, LogitsOfEveryPositionAreWithinTolerance) {
  SpineRun run(kTinyDir);
  auto state = run.NewSequence();
  const auto logits = run.Feed(*state, prompt_, LogitsRows::kAll);
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

TEST_F(TinyGoldenTest, GreedyIdsAreEqual) {
  SpineRun run(kTinyDir);
  EXPECT_EQ(run.Greedy(prompt_, 32),
            Narrow(golden_.Get<int64_t>("greedy_ids")));
}

TEST_F(TinyGoldenTest, RouterIdsAreEqualAsSets) {
  SpineRun run(kTinyDir);
  int layers_seen = 0;
  run.on_route = [&](int layer, const RoutedTokens& tokens) {
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
  auto state = run.NewSequence();
  ASSERT_TRUE(run.Feed(*state, prompt_).ok());
  EXPECT_EQ(layers_seen, 12);
}

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
