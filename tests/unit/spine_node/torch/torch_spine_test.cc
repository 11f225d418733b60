// The libtorch spine against golden/tiny-a and the k3-nano evaluation, and its
// states.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/golden_file.h"
#include "tests/unit/spine_node/torch/torch_run.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";

SpineRun RunOf(const std::string& model_dir, int64_t generation_bytes = 0) {
  TorchSpineOptions options = TorchOptions(model_dir);
  options.generation_bytes = generation_bytes;
  return TorchRun(options);
}

std::vector<int32_t> Narrow(const std::vector<int64_t>& ids) {
  return {ids.begin(), ids.end()};
}

double WorstDifference(const std::vector<float>& a,
                       const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  return worst;
}

class TorchTinyTest : public ::testing::Test {
 protected:
  GoldenFile golden_{kTinyDir + "/golden.safetensors"};
  std::vector<int32_t> prompt_ = Narrow(golden_.Get<int64_t>("prompt_ids"));
};

TEST_F(TorchTinyTest, LogitsOfEveryPositionAreWithinTolerance) {
  SpineRun run = RunOf(kTinyDir);
  auto state = run.NewSequence();
  const auto logits = run.Feed(*state, prompt_, LogitsRows::kAll);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_LT(WorstDifference(*logits, golden_.Get<double>("f64.logits")), 2e-3);
}

TEST_F(TorchTinyTest, GreedyIdsAreEqualWhateverTheChunk) {
  SpineRun run = RunOf(kTinyDir);
  const auto expected = Narrow(golden_.Get<int64_t>("greedy_ids"));
  EXPECT_EQ(run.Greedy(prompt_, 32), expected);
  EXPECT_EQ(run.Greedy(prompt_, 32, /*chunk=*/1), expected);
  EXPECT_EQ(run.Greedy(prompt_, 32, /*chunk=*/17), expected);
}

TEST_F(TorchTinyTest, RouterIdsAreEqualAsSets) {
  SpineRun run = RunOf(kTinyDir);
  int layers_seen = 0;
  run.on_route = [&](int layer, const RoutedTokens& tokens) {
    ++layers_seen;
    auto expected = Narrow(
        golden_.Get<int64_t>("layer." + std::to_string(layer) + ".router_ids"));
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

TEST_F(TorchTinyTest, ForkedSequenceGoesItsOwnWay) {
  SpineRun run = RunOf(kTinyDir);
  auto first = run.NewSequence();
  ASSERT_TRUE(run.Feed(*first, prompt_).ok());
  auto second = run.spine().Fork(*first, 64);
  ASSERT_TRUE(second.ok()) << second.status();
  const std::vector<int32_t> one = {1};
  const std::vector<int32_t> two = {2};
  const auto alone = run.Feed(*first, one);
  ASSERT_TRUE(run.Feed(**second, two).ok());
  EXPECT_EQ(first->num_tokens(), (*second)->num_tokens());
  auto again = run.NewSequence();
  ASSERT_TRUE(run.Feed(*again, prompt_).ok());
  EXPECT_EQ(*run.Feed(*again, one), *alone);
}

TEST_F(TorchTinyTest, TruncationReturnsToTheNewestGenerationAtOrBefore) {
  SpineRun run = RunOf(kTinyDir, /*generation_bytes=*/int64_t{1} << 20);
  auto state = run.NewSequence();
  const std::span<const int32_t> prompt = prompt_;
  ASSERT_TRUE(run.Feed(*state, prompt.first(10)).ok());
  ASSERT_TRUE(run.spine().RetainGeneration(*state).ok());
  const auto whole = run.Feed(*state, prompt.subspan(10));
  ASSERT_TRUE(run.spine().RetainGeneration(*state).ok());
  const auto retained = run.spine().TruncateTo(*state, 15);
  ASSERT_TRUE(retained.ok()) << retained.status();
  EXPECT_EQ(*retained, 10);
  EXPECT_EQ(state->num_tokens(), 10);
  EXPECT_EQ(*run.Feed(*state, prompt.subspan(10)), *whole);
  EXPECT_EQ(*run.spine().TruncateTo(*state, 9), 0);
}

TEST(TorchNanoTest, GreedyIdsOfPromptsAndChatsAreEqual) {
  std::ifstream file(kNanoDir + "/eval/golden.json");
  const auto golden = nlohmann::json::parse(file);
  SpineRun run = RunOf(kNanoDir);
  for (const char* list : {"prompts", "chat_prompts"}) {
    ASSERT_FALSE(golden[list].empty());
    for (const auto& prompt : golden[list]) {
      const auto ids = prompt["ids"].get<std::vector<int32_t>>();
      const auto expected =
          prompt["float32"]["greedy"].get<std::vector<int32_t>>();
      EXPECT_EQ(run.Greedy(ids, expected.size()), expected);
    }
  }
}

TEST(TorchLoaderTest, NamesTheMissingLibraryAndWhatToDo) {
  TorchSpineOptions options;
  options.model_dir = kTinyDir;
  options.library = "/nowhere/libdeltafin_torch_spine.so";
  const auto spine = LoadTorchSpine(options);
  EXPECT_EQ(spine.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(spine.status().message()),
              AllOf(HasSubstr("libtorch spine is not available"),
                    HasSubstr("/nowhere/"), HasSubstr("--device cpu")));
}

TEST(TorchLoaderTest, MissingDeviceIsUnavailableWithAdvice) {
  TorchSpineOptions options;
  options.model_dir = kTinyDir;
  options.device = "mps";
  const auto spine = LoadTorchSpine(options);
  EXPECT_EQ(spine.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(spine.status().message()),
              AllOf(HasSubstr("no device 'mps'"), HasSubstr("--device cpu")));
}

TEST(TorchLoaderTest, UnknownDeviceIsAnError) {
  TorchSpineOptions options;
  options.model_dir = kTinyDir;
  options.device = "abacus";
  const auto spine = LoadTorchSpine(options);
  EXPECT_FALSE(spine.ok());
  EXPECT_THAT(std::string(spine.status().message()), HasSubstr("abacus"));
}

}  // namespace
}  // namespace deltafin::testing
