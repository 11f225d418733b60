#include "coordinator/engine/forward_pass.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"

namespace deltafin {
namespace {

using testing::FakeRoutedExperts;
using testing::FakeSpine;
using testing::FakeSpineOptions;

bool Never() { return false; }

class ForwardPassTest : public ::testing::Test {
 protected:
  ForwardPassTest() : ForwardPassTest(FakeSpineOptions()) {}
  explicit ForwardPassTest(const FakeSpineOptions& options)
      : spine_(options),
        experts_(spine_.spec().expert_shape()),
        forward_(spine_, experts_) {}

  std::unique_ptr<SequenceState> NewSequence() {
    return spine_.NewSequence(100).value();
  }

  // Logits after the ids, as one step of its own.
  std::vector<float> Step(SequenceState* state, std::vector<int32_t> ids) {
    const SequenceSlice slice = {state, ids, LogitsRows::kLast};
    const auto rows = forward_.Step({&slice, 1}, Never);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return {rows->begin(), rows->end()};
  }

  FakeSpine spine_;
  FakeRoutedExperts experts_;
  ForwardPass forward_;
};

TEST_F(ForwardPassTest, RunsEveryLayerAndGivesTheRowsAskedFor) {
  const auto state = NewSequence();
  const std::vector<float> logits = Step(state.get(), {1, 2, 3});
  EXPECT_EQ(logits.size(), 61u);
  EXPECT_EQ(state->num_tokens(), 3);
  EXPECT_EQ(forward_.stats().layers, 4);
  EXPECT_EQ(experts_.layers_started(), 3);  // the first layer is dense
}

TEST_F(ForwardPassTest, PromptCutAndCompanionsDoNotShow) {
  const auto whole = NewSequence();
  const std::vector<float> logits = Step(whole.get(), {1, 2, 3});
  const auto cut = NewSequence();
  Step(cut.get(), {1});
  const auto companion = NewSequence();
  const std::vector<int32_t> rest = {2, 3}, other = {9, 9, 9};
  const SequenceSlice slices[] = {{companion.get(), other, LogitsRows::kNone},
                                  {cut.get(), rest, LogitsRows::kLast}};
  const auto rows = forward_.Step(slices, Never);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(std::vector<float>(rows->begin(), rows->end()), logits);
}

TEST_F(ForwardPassTest, AddsUpWhatSpineAndExpertsReport) {
  const auto state = NewSequence();
  Step(state.get(), {1});
  Step(state.get(), {2});
  EXPECT_EQ(forward_.stats().spine.read, 0.5);
  EXPECT_EQ(forward_.stats().spine.attention, 1);
  EXPECT_EQ(forward_.stats().spine.compute, 2);
  EXPECT_EQ(forward_.stats().spine.head, 4);
  EXPECT_EQ(forward_.stats().experts_read, 0.25);
  EXPECT_EQ(forward_.stats().experts_compute, 0.5);
  EXPECT_EQ(forward_.stats().network, 1);
}

TEST_F(ForwardPassTest, StopsBetweenLayersWhenCancelled) {
  const auto state = NewSequence();
  const std::vector<int32_t> ids = {1};
  const SequenceSlice slice = {state.get(), ids, LogitsRows::kLast};
  int polls = 0;
  const auto rows =
      forward_.Step({&slice, 1}, [&polls] { return ++polls > 2; });
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(forward_.stats().layers, 2);
  EXPECT_EQ(experts_.steps_abandoned(), 1);
  EXPECT_EQ(spine_.steps_abandoned(), 1);
}

TEST_F(ForwardPassTest, ExpertErrorAbandonsTheStepOnBothSides) {
  experts_.before_answer = [](uint64_t, int layer) {
    return layer == 2 ? absl::OutOfRangeError("layer 2: node a: overflow")
                      : absl::OkStatus();
  };
  const auto state = NewSequence();
  const std::vector<int32_t> ids = {1};
  const SequenceSlice slice = {state.get(), ids, LogitsRows::kLast};
  const auto rows = forward_.Step({&slice, 1}, Never);
  EXPECT_EQ(rows.status(), absl::OutOfRangeError("layer 2: node a: overflow"));
  EXPECT_EQ(experts_.steps_abandoned(), 1);
  EXPECT_EQ(spine_.steps_abandoned(), 1);
}

class PoisonedForwardPassTest : public ForwardPassTest {
 protected:
  static FakeSpineOptions Poisoned() {
    FakeSpineOptions options;
    options.poison_id = 13;
    return options;
  }
  PoisonedForwardPassTest() : ForwardPassTest(Poisoned()) {}
};

TEST_F(PoisonedForwardPassTest, SpineErrorNamesItsLayer) {
  const auto state = NewSequence();
  const std::vector<int32_t> ids = {13};
  const SequenceSlice slice = {state.get(), ids, LogitsRows::kLast};
  const auto rows = forward_.Step({&slice, 1}, Never);
  EXPECT_EQ(rows.status(),
            absl::OutOfRangeError("layer 3 attention: not finite"));
  EXPECT_EQ(experts_.steps_abandoned(), 1);
}

}  // namespace
}  // namespace deltafin
