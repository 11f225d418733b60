// Layers in two spines have the bits of one spine with all of them.
#include "spine_node/split_spine.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";

class SplitSpineTest : public ::testing::Test {
 protected:
  std::unique_ptr<PartialSpine> Load(const std::string& model, int first_layer,
                                     int64_t generation_bytes = 0) {
    SpineOptions options;
    options.model_dir = model;
    options.kernel = &BestKernel();
    options.threads = &threads_;
    options.first_layer = first_layer;
    options.generation_bytes = generation_bytes;
    auto spine = LoadCpuSpine(options);
    EXPECT_TRUE(spine.ok()) << spine.status();
    return *std::move(spine);
  }

  // The front holds all layers, but no more than the first are used.
  SpineRun Split(const std::string& model, int num_front_layers) {
    return SpineRun(
        model, MakeSplitSpine(Load(model, 0), Load(model, num_front_layers),
                              num_front_layers));
  }

  ThreadPool threads_{1, "spine"};
};

std::vector<uint32_t> Bits(const absl::StatusOr<std::vector<float>>& values) {
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? ToBits(*values) : std::vector<uint32_t>();
}

// A prompt, single tokens, two sequences in one step, a copy.
std::vector<std::vector<uint32_t>> Everything(SpineRun& run) {
  std::vector<std::vector<uint32_t>> rows;
  auto a = run.NewSequence();
  auto b = run.NewSequence();
  const std::vector<int32_t> prompt = MakeIds(30, 1), other = MakeIds(20, 2);
  rows.push_back(Bits(run.Feed(*a, prompt, LogitsRows::kAll)));
  for (const int32_t& id : MakeIds(3, 3)) {
    rows.push_back(Bits(run.Feed(*a, {&id, 1})));
  }
  const std::vector<SequenceSlice> slices = {
      {b.get(), other, LogitsRows::kLast, 0},
      {a.get(), {&prompt[5], 1}, LogitsRows::kLast, 0}};
  rows.push_back(Bits(run.Step(slices)));
  auto copy = run.spine().Fork(*a, 64);
  EXPECT_TRUE(copy.ok()) << copy.status();
  rows.push_back(Bits(run.Feed(**copy, {&prompt[7], 1})));
  rows.push_back(Bits(run.Feed(*a, {&prompt[9], 1})));
  return rows;
}

TEST_F(SplitSpineTest, TinyHasTheSameBitsWhereverItIsCut) {
  SpineRun whole(kTinyDir);
  const auto expected = Everything(whole);
  for (int front = 1; front <= 13; ++front) {
    SpineRun run = Split(kTinyDir, front);
    EXPECT_TRUE(Everything(run) == expected) << front << " layers in front";
  }
}

TEST_F(SplitSpineTest, NanoHasTheSameBitsWhereverItIsCut) {
  SpineRun whole(kNanoDir);
  const auto expected = Everything(whole);
  for (const int front : {1, 6, 13}) {
    SpineRun run = Split(kNanoDir, front);
    EXPECT_TRUE(Everything(run) == expected) << front << " layers in front";
  }
}

TEST_F(SplitSpineTest, TheBackTakesMemoryForItsLayersAlone) {
  const SpineDescription whole = Load(kTinyDir, 0)->description();
  const SpineDescription back = Load(kTinyDir, 8)->description();
  const SpineDescription head = Load(kTinyDir, 13)->description();
  EXPECT_LT(back.weight_bytes, whole.weight_bytes / 2);
  EXPECT_LT(back.sequence_fixed_bytes, whole.sequence_fixed_bytes / 2);
  EXPECT_LT(head.weight_bytes, back.weight_bytes);
  EXPECT_EQ(head.sequence_fixed_bytes, 0);
  EXPECT_EQ(head.sequence_token_bytes, 0);
}

TEST_F(SplitSpineTest, TruncationReturnsToAGenerationThatBothKept) {
  // The back's generations are smaller: it keeps more of them.
  constexpr int kFront = 8;
  const int64_t one = Load(kTinyDir, 0)->description().sequence_fixed_bytes;
  SpineRun run(kTinyDir, MakeSplitSpine(Load(kTinyDir, 0, one),
                                        Load(kTinyDir, kFront, one), kFront));
  auto state = run.NewSequence();
  const std::vector<int32_t> ids = MakeIds(24, 4);
  const std::span<const int32_t> all = ids;
  ASSERT_TRUE(run.Feed(*state, all.first(8)).ok());
  ASSERT_TRUE(run.spine().RetainGeneration(*state).ok());
  const auto middle = run.Feed(*state, all.subspan(8, 8));
  ASSERT_TRUE(run.spine().RetainGeneration(*state).ok());
  const auto last = Bits(run.Feed(*state, all.subspan(16)));
  EXPECT_EQ(*run.spine().TruncateTo(*state, 20), 16);
  EXPECT_EQ(Bits(run.Feed(*state, all.subspan(16))), last);
  EXPECT_EQ(*run.spine().TruncateTo(*state, 12), 0);
  EXPECT_EQ(state->num_tokens(), 0);
  ASSERT_TRUE(run.Feed(*state, all.first(8)).ok());
  EXPECT_EQ(Bits(run.Feed(*state, all.subspan(8, 8))), Bits(middle));
}

TEST_F(SplitSpineTest, AnAbandonedStepIsUndoneInBoth) {
  SpineRun run = Split(kTinyDir, 6);
  auto state = run.NewSequence();
  const std::vector<int32_t> ids = MakeIds(9, 5);
  const auto expected = Bits(run.Feed(*state, ids));
  const std::vector<SequenceSlice> slices = {
      {state.get(), {ids.data(), 1}, LogitsRows::kLast, 0}};
  ASSERT_TRUE(run.spine().Embed(slices).ok());
  ASSERT_TRUE(run.spine().Attend(0).ok());
  run.spine().AbandonStep();
  EXPECT_EQ(*run.spine().TruncateTo(*state, 0), 0);
  EXPECT_EQ(Bits(run.Feed(*state, ids)), expected);
}

TEST_F(SplitSpineTest, RefusesASequenceOfAnotherSpine) {
  SpineRun run = Split(kTinyDir, 6);
  SpineRun whole(kTinyDir);
  auto state = whole.NewSequence();
  const std::vector<int32_t> ids = {1};
  EXPECT_THAT(std::string(run.Feed(*state, ids).status().message()),
              HasSubstr("not made by this spine"));
}

TEST_F(SplitSpineTest, NamesBothAndTakesNoDrafts) {
  SpineRun run = Split(kTinyDir, 6);
  const SpineDescription description = run.spine().description();
  EXPECT_EQ(description.name, "cpu-bf16+cpu-bf16");
  EXPECT_EQ(description.max_drafts, 0);
}

}  // namespace
}  // namespace deltafin::testing
