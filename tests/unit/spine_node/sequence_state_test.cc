// Sequences of the CPU spine fork, go back to retained generations, and are
// refused after a failed step.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";

class SequenceStateTest : public ::testing::Test {
 protected:
  // Room for two retained generations.
  SequenceStateTest() : run_(kTinyDir, {.generation_bytes = Fixed() * 5 / 2}) {}

  // 9 KDA layers of 6 heads: S of 16 x 16 and 9 rows of 16, f32.
  static int64_t Fixed() { return int64_t{4} * 9 * 6 * (16 * 16 + 9 * 16); }

  std::vector<float> Feed(SequenceState& state, std::vector<int32_t> ids) {
    auto logits = run_.Feed(state, ids);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return *std::move(logits);
  }

  SpineRun run_;
};

TEST_F(SequenceStateTest, ForkGoesItsOwnWay) {
  auto state = run_.NewSequence();
  Feed(*state, {1, 2, 3, 4, 5});
  auto fork = run_.spine().Fork(*state, 1024);
  ASSERT_TRUE(fork.ok()) << fork.status();
  EXPECT_EQ((*fork)->num_tokens(), 5);
  const auto after_other = Feed(**fork, {77});
  const auto after_same = Feed(*state, {6});
  EXPECT_NE(after_other, after_same);

  auto fresh = run_.NewSequence();
  EXPECT_EQ(Feed(*fresh, {1, 2, 3, 4, 5, 77}), after_other);
  auto second = run_.NewSequence();
  EXPECT_EQ(Feed(*second, {1, 2, 3, 4, 5, 6}), after_same);
}

TEST_F(SequenceStateTest, ForkOutlivesItsOrigin) {
  auto state = run_.NewSequence();
  Feed(*state, {1, 2, 3});
  const auto expected = [&] {
    auto other = run_.NewSequence();
    return Feed(*other, {1, 2, 3, 4});
  }();
  auto fork = run_.spine().Fork(*state, 1024);
  ASSERT_TRUE(fork.ok()) << fork.status();
  state.reset();
  EXPECT_EQ(Feed(**fork, {4}), expected);
}

TEST_F(SequenceStateTest, TruncatesToNearestGenerationAndRefeedsSameBits) {
  auto state = run_.NewSequence();
  Feed(*state, {1, 2, 3});
  ASSERT_TRUE(run_.spine().RetainGeneration(*state).ok());
  Feed(*state, {4, 5, 6, 7});
  ASSERT_TRUE(run_.spine().RetainGeneration(*state).ok());
  const auto expected = Feed(*state, {8});
  Feed(*state, {9, 10});

  // 5 lies between the generations of 3 and 7 tokens.
  auto kept = run_.spine().TruncateTo(*state, 5);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, 3);
  EXPECT_EQ(state->num_tokens(), 3);
  Feed(*state, {4, 5, 6, 7});
  EXPECT_EQ(Feed(*state, {8}), expected);
}

TEST_F(SequenceStateTest, TruncatesToZeroWithoutGeneration) {
  auto state = run_.NewSequence();
  const auto expected = Feed(*state, {1, 2, 3});
  Feed(*state, {4});
  auto kept = run_.spine().TruncateTo(*state, 3);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(*kept, 0);
  EXPECT_EQ(Feed(*state, {1, 2, 3}), expected);
}

TEST_F(SequenceStateTest, TruncationToPresentLengthKeepsEverything) {
  auto state = run_.NewSequence();
  Feed(*state, {1, 2, 3});
  EXPECT_EQ(*run_.spine().TruncateTo(*state, 3), 3);
  EXPECT_EQ(*run_.spine().TruncateTo(*state, 100), 3);
  auto other = run_.NewSequence();
  EXPECT_EQ(Feed(*state, {4}), Feed(*other, {1, 2, 3, 4}));
}

TEST_F(SequenceStateTest, OldestGenerationGoesWhenBytesAreExceeded) {
  auto state = run_.NewSequence();
  for (const int32_t id : {1, 2, 3}) {
    Feed(*state, {id});
    ASSERT_TRUE(run_.spine().RetainGeneration(*state).ok());
  }
  const int64_t token_bytes = run_.spine().description().sequence_token_bytes;
  EXPECT_EQ(state->bytes(), 3 * Fixed() + 3 * token_bytes);
  EXPECT_EQ(*run_.spine().TruncateTo(*state, 2), 2);
  EXPECT_EQ(*run_.spine().TruncateTo(*state, 1), 0);
}

TEST_F(SequenceStateTest, BytesGrowByTheTokenAndAreDescribed) {
  const SpineDescription description = run_.spine().description();
  EXPECT_EQ(description.sequence_fixed_bytes, Fixed());
  EXPECT_EQ(description.sequence_token_bytes, int64_t{4} * 4 * (32 + 8));
  auto state = run_.NewSequence();
  EXPECT_EQ(state->bytes(), Fixed());
  Feed(*state, {1, 2});
  EXPECT_EQ(state->bytes(), Fixed() + 2 * description.sequence_token_bytes);
}

TEST_F(SequenceStateTest, AbandonedStepAsksForTruncation) {
  auto state = run_.NewSequence();
  Feed(*state, {1, 2, 3});
  ASSERT_TRUE(run_.spine().RetainGeneration(*state).ok());
  const std::vector<int32_t> ids = {4};
  const std::vector<SequenceSlice> slices = {{state.get(), ids}};
  ASSERT_TRUE(run_.spine().Embed(slices).ok());
  ASSERT_TRUE(run_.spine().Attend(0).ok());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(run_.spine().TruncateTo(*state, 3).status()));
  run_.spine().AbandonStep();

  EXPECT_TRUE(absl::IsFailedPrecondition(run_.spine().Embed(slices)));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(run_.spine().Fork(*state, 1024).status()));
  EXPECT_TRUE(
      absl::IsFailedPrecondition(run_.spine().RetainGeneration(*state)));
  EXPECT_EQ(*run_.spine().TruncateTo(*state, 3), 3);
  auto other = run_.NewSequence();
  EXPECT_EQ(Feed(*state, ids), Feed(*other, {1, 2, 3, 4}));
}

TEST_F(SequenceStateTest, BadSlicesAreRefusedAndLeaveNoStep) {
  auto state = run_.NewSequence(4);
  const auto refusal = [&](std::vector<SequenceSlice> slices) {
    const absl::Status status = run_.spine().Embed(slices);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  const std::vector<int32_t> fine = {1, 2}, high = {640}, negative = {-1},
                             many = {1, 2, 3, 4, 5};
  EXPECT_THAT(refusal({}), ::testing::HasSubstr("at least one sequence"));
  EXPECT_THAT(refusal({{state.get(), {}}}),
              ::testing::HasSubstr("no token ids"));
  EXPECT_THAT(refusal({{state.get(), high}}),
              ::testing::HasSubstr("token id 640 is not in 0..639"));
  EXPECT_THAT(refusal({{state.get(), negative}}),
              ::testing::HasSubstr("token id -1"));
  EXPECT_THAT(refusal({{state.get(), many}}),
              ::testing::HasSubstr("limit of 4"));
  EXPECT_THAT(refusal({{state.get(), fine}, {state.get(), fine}}),
              ::testing::HasSubstr("slices 0 and 1 are of one sequence"));
  EXPECT_THAT(refusal({{nullptr, fine}}),
              ::testing::HasSubstr("not made by this spine"));
  EXPECT_TRUE(absl::IsFailedPrecondition(run_.spine().Attend(0)));
  EXPECT_TRUE(run_.Feed(*state, fine).ok());
}

TEST_F(SequenceStateTest, LengthsTheModelDoesNotTakeAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(run_.spine().NewSequence(0).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(run_.spine().NewSequence(4097).status()));
  EXPECT_TRUE(run_.spine().NewSequence(4096).ok());
}

}  // namespace
}  // namespace deltafin::testing
