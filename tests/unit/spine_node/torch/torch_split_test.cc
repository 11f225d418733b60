// Layers on a libtorch device, the others in a CPU spine; matrices packed as a
// card has them. With DELTAFIN_TEST_TORCH_DEVICE=cuda the device is a card.
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spine_node/spine_loader.h"
#include "spine_node/split_spine.h"
#include "tests/testing/model_copy.h"
#include "tests/unit/spine_node/torch/torch_run.h"

namespace deltafin::testing {
namespace {

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";

class TorchSplitTest : public ::testing::Test {
 protected:
  SpineRun Split(const std::string& model, int num_device_layers) {
    SpineOptions options;
    options.model_dir = model;
    options.kernel = &BestKernel();
    options.threads = &threads_;
    options.first_layer = num_device_layers;
    auto back = LoadCpuSpine(options);
    EXPECT_TRUE(back.ok()) << back.status();
    if (num_device_layers == 0) return SpineRun(model, *std::move(back));
    TorchSpineOptions torch = TorchOptions(model);
    torch.num_layers = num_device_layers;
    auto front = LoadTorchSpine(torch);
    EXPECT_TRUE(front.ok()) << front.status();
    return SpineRun(model, MakeSplitSpine(*std::move(front), *std::move(back),
                                          num_device_layers));
  }

  ThreadPool threads_{1, "spine"};
};

struct NanoPrompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> greedy;
};

NanoPrompt FirstNanoPrompt() {
  std::ifstream file(kNanoDir + "/eval/golden.json");
  const auto prompt = nlohmann::json::parse(file)["prompts"][0];
  return {prompt["ids"], prompt["float32"]["greedy"]};
}

TEST_F(TorchSplitTest, NanoWithNoneHalfAndAllLayersOnTheDevice) {
  const NanoPrompt prompt = FirstNanoPrompt();
  for (const int layers : {0, 6, 13}) {
    SpineRun run = Split(kNanoDir, layers);
    EXPECT_EQ(
        run.Greedy(prompt.ids, 32),
        std::vector<int32_t>(prompt.greedy.begin(), prompt.greedy.begin() + 32))
        << layers << " layers on the device";
  }
}

TEST_F(TorchSplitTest, TinyWhereverItIsCutAndWhateverTheChunk) {
  SpineRun whole(kTinyDir);
  const std::vector<int32_t> prompt = {5, 90, 411, 7, 8, 23, 600, 1, 2, 3};
  const std::vector<int32_t> expected = whole.Greedy(prompt, 12);
  for (const int layers : {1, 5, 12, 13}) {
    SpineRun run = Split(kTinyDir, layers);
    EXPECT_EQ(run.Greedy(prompt, 12), expected) << layers;
    EXPECT_EQ(run.Greedy(prompt, 12, /*chunk=*/3), expected) << layers;
  }
}

// Steps of many tokens take libtorch's way and steps of few the card's, where
// there is one: a sequence may go from one to the other and back.
TEST_F(TorchSplitTest, LargeAndSmallStepsFollowEachOther) {
  SpineRun whole(kNanoDir);
  SpineRun device = TorchRun(TorchOptions(kNanoDir));
  auto a = whole.NewSequence();
  auto b = device.NewSequence();
  uint32_t seed = 9;
  for (const int count : {20, 1, 3, 17, 8, 9, 1}) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids) {
      seed = seed * 1664525u + 1013904223u;
      id = static_cast<int32_t>((seed >> 8) % 4000);
    }
    const auto expected = whole.Feed(*a, ids, LogitsRows::kAll);
    const auto got = device.Feed(*b, ids, LogitsRows::kAll);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT(*got,
                ::testing::Pointwise(::testing::FloatNear(2e-3f), *expected))
        << count << " tokens";
  }
}

TEST_F(TorchSplitTest, SeveralSequencesShareASmallStep) {
  SpineRun whole(kNanoDir);
  SpineRun device = TorchRun(TorchOptions(kNanoDir));
  const std::vector<int32_t> first = {9, 8, 7}, second = {1, 2};
  std::vector<std::vector<float>> rows;
  for (SpineRun* run : {&whole, &device}) {
    auto a = run->NewSequence();
    auto b = run->NewSequence();
    ASSERT_TRUE(run->Feed(*a, first).ok());
    const std::vector<SequenceSlice> slices = {
        {a.get(), second, LogitsRows::kAll, 0},
        {b.get(), first, LogitsRows::kLast, 0}};
    auto logits = run->Step(slices);
    ASSERT_TRUE(logits.ok()) << logits.status();
    rows.push_back(*std::move(logits));
  }
  EXPECT_THAT(rows[1],
              ::testing::Pointwise(::testing::FloatNear(2e-3f), rows[0]));
}

TEST_F(TorchSplitTest, ForksAndGenerationsKeepTheirStates) {
  TorchSpineOptions options = TorchOptions(kNanoDir);
  options.generation_bytes = int64_t{64} << 20;
  SpineRun run = TorchRun(options);
  const std::vector<int32_t> ids = {4, 5, 6, 7};
  auto state = run.NewSequence();
  ASSERT_TRUE(run.Feed(*state, ids).ok());
  ASSERT_TRUE(run.spine().RetainGeneration(*state).ok());
  auto copy = run.spine().Fork(*state, 64);
  ASSERT_TRUE(copy.ok()) << copy.status();
  const auto first = run.Feed(*state, {&ids[0], 1});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*run.Feed(**copy, {&ids[0], 1}), *first);
  EXPECT_EQ(*run.spine().TruncateTo(*state, 4), 4);
  EXPECT_EQ(*run.Feed(*state, {&ids[0], 1}), *first);
}

// The same values as f32, in other memory.
TEST_F(TorchSplitTest, PackedBf16HasTheBitsOfFloats) {
  const std::vector<int32_t> ids = {3, 2, 1, 0, 599, 50, 51, 52, 53, 54};
  std::vector<std::vector<float>> rows;
  for (const DeviceValues values :
       {DeviceValues::kFloat, DeviceValues::kPacked}) {
    TorchSpineOptions options = TorchOptions(kTinyDir);
    options.device = "cpu";
    options.values = values;
    SpineRun run = TorchRun(options);
    auto state = run.NewSequence();
    auto logits = run.Feed(*state, ids, LogitsRows::kAll);
    ASSERT_TRUE(logits.ok()) << logits.status();
    rows.push_back(*std::move(logits));
  }
  EXPECT_EQ(rows[0], rows[1]);
}

TEST_F(TorchSplitTest, Int8RowsAreThoseOfTheCpuSpine) {
  const ModelCopy model(kNanoDir);  // receives the int8 files
  SpineRun cpu(model.path(), {.precision = SpinePrecision::kInt8});
  TorchSpineOptions options = TorchOptions(model.path());
  options.precision = SpinePrecision::kInt8;
  SpineRun device = TorchRun(options);
  const std::vector<int32_t> ids = {11, 12, 13, 14, 15};
  auto a = cpu.NewSequence();
  auto b = device.NewSequence();
  const auto expected = cpu.Feed(*a, ids, LogitsRows::kAll);
  const auto got = device.Feed(*b, ids, LogitsRows::kAll);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  EXPECT_THAT(*got,
              ::testing::Pointwise(::testing::FloatNear(2e-3f), *expected));
}

}  // namespace
}  // namespace deltafin::testing
