// Drafts that are taken back leave no trace: what follows has the bits that it
// has without them.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/cpu/layer_context.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
const std::vector<int32_t> kIds = {7,   301, 12, 12, 88, 5,  630, 41,
                                   200, 3,   77, 19, 19, 64, 501, 8};

class DraftTest : public ::testing::Test {
 protected:
  using Rows = std::vector<std::vector<float>>;

  // One step of one sequence; a row of logits per id.
  Rows Step(SequenceState& state, std::vector<int32_t> ids, int num_drafts) {
    const std::vector<SequenceSlice> slices = {
        {&state, ids, LogitsRows::kAll, num_drafts}};
    return Split(run_.Step(slices).value());
  }
  Rows Split(const std::vector<float>& logits) const {
    Rows rows;
    const size_t vocab = run_.spec().vocab_size;
    for (size_t i = 0; i < logits.size(); i += vocab) {
      rows.emplace_back(logits.begin() + i, logits.begin() + i + vocab);
    }
    return rows;
  }
  // Row i: after kIds[i], fed one by one.
  Rows OneByOne() {
    auto state = run_.NewSequence();
    Rows rows;
    for (const int32_t id : kIds) rows.push_back(Step(*state, {id}, 0)[0]);
    return rows;
  }
  std::vector<int32_t> Ids(size_t begin, size_t count) const {
    return {kIds.begin() + begin, kIds.begin() + begin + count};
  }

  SpineRun run_{kTinyDir};
};

TEST_F(DraftTest, RowsOfDraftsAreThoseOfTokensFedOneByOne) {
  const Rows expected = OneByOne();
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 3), 0);
  const Rows rows = Step(*state, Ids(3, 8), 7);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], expected[3 + i]) << i;
  }
}

TEST_F(DraftTest, WhatFollowsDoesNotShowHowManyWereTakenBack) {
  const Rows expected = OneByOne();
  for (const int num_drafts : {1, 3, 7}) {
    for (int kept = 0; kept <= num_drafts; ++kept) {
      auto state = run_.NewSequence();
      Step(*state, Ids(0, 4), 0);
      // The pending token, right guesses, wrong ones.
      std::vector<int32_t> ids = Ids(4, 1 + kept);
      ids.resize(1 + num_drafts, 600);
      Step(*state, ids, num_drafts);
      ASSERT_TRUE(run_.spine().TakeBack(*state, num_drafts - kept).ok());
      ASSERT_EQ(state->num_tokens(), 5 + kept);
      const Rows rows = Step(*state, Ids(5 + kept, 2), 0);
      EXPECT_EQ(rows[0], expected[5 + kept]) << num_drafts << " " << kept;
      EXPECT_EQ(rows[1], expected[6 + kept]) << num_drafts << " " << kept;
    }
  }
}

TEST_F(DraftTest, StepsWithDraftsFollowEachOther) {
  const Rows expected = OneByOne();
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 2), 0);
  size_t held = 2;
  for (const int kept : {0, 2, 1, 3, 0, 1}) {
    std::vector<int32_t> ids = Ids(held, 1 + kept);
    ids.resize(5, 11);
    const Rows rows = Step(*state, ids, 4);
    for (int i = 0; i <= kept; ++i) EXPECT_EQ(rows[i], expected[held + i]);
    // Twice, as a caller may find out bit by bit.
    ASSERT_TRUE(run_.spine().TakeBack(*state, 4 - kept).ok());
    ASSERT_TRUE(run_.spine().TakeBack(*state, 0).ok());
    held += 1 + kept;
    ASSERT_EQ(state->num_tokens(), static_cast<int64_t>(held));
  }
}

TEST_F(DraftTest, ACopyTakesTheDraftsThatWereKeptAlong) {
  const Rows expected = OneByOne();
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 6), 3);
  ASSERT_TRUE(run_.spine().TakeBack(*state, 1).ok());
  auto copy = run_.spine().Fork(*state, 100).value();
  state.reset();
  EXPECT_EQ(copy->num_tokens(), 5);
  EXPECT_EQ(Step(*copy, Ids(5, 1), 0)[0], expected[5]);
}

// A companion of every possible length pushes the drafts over the border of a
// token group.
TEST_F(DraftTest, DraftsMayLieInTwoTokenGroups) {
  const Rows expected = OneByOne();
  for (int shift = 1; shift < 8; ++shift) {
    auto companion = run_.NewSequence();
    auto state = run_.NewSequence();
    Step(*state, Ids(0, 4), 0);
    const std::vector<int32_t> others(kTokenGroup - shift, 9);
    const std::vector<int32_t> ids = Ids(4, 8);
    const std::vector<SequenceSlice> slices = {
        {companion.get(), others, LogitsRows::kNone},
        {state.get(), ids, LogitsRows::kAll, 7}};
    const Rows rows = Split(run_.Step(slices).value());
    for (int i = 0; i < 8; ++i) EXPECT_EQ(rows[i], expected[4 + i]) << shift;
    ASSERT_TRUE(run_.spine().TakeBack(*state, 2).ok());
    EXPECT_EQ(Step(*state, Ids(10, 1), 0)[0], expected[10]) << shift;
  }
}

TEST_F(DraftTest, KernelAndThreadsDoNotShow) {
  const Rows expected = OneByOne();
  SpineRun other(kTinyDir, {.kernel = "reference", .num_threads = 3});
  auto state = other.NewSequence();
  for (const size_t held : {0, 5, 10}) {
    std::vector<int32_t> ids = Ids(held, 5);  // three of six drafts are right
    ids.insert(ids.begin() + 4, {600, 601, 602});
    ids.pop_back();
    const std::vector<SequenceSlice> slices = {
        {state.get(), ids, LogitsRows::kAll, 6}};
    const Rows rows = Split(other.Step(slices).value());
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(rows[i], expected[held + i]);
    ASSERT_TRUE(other.spine().TakeBack(*state, 3).ok());
    const std::vector<int32_t> next = Ids(held + 4, 1);
    EXPECT_EQ(other.Feed(*state, next).value(), expected[held + 4]);
  }
}

TEST_F(DraftTest, MoreThanTheDraftsCannotBeTakenBack) {
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 4), 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(run_.spine().TakeBack(*state, 3)));
  EXPECT_TRUE(run_.spine().TakeBack(*state, 2).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(run_.spine().TakeBack(*state, 1)));
  Step(*state, Ids(2, 3), 1);
  Step(*state, Ids(5, 1), 0);  // now they belong to the sequence
  EXPECT_TRUE(absl::IsFailedPrecondition(run_.spine().TakeBack(*state, 1)));
}

TEST_F(DraftTest, ASliceOfTooManyDraftsIsRefused) {
  auto state = run_.NewSequence();
  const std::vector<int32_t> ids = Ids(0, 10);
  const auto refused = [&](size_t count, int num_drafts) {
    const std::vector<SequenceSlice> slices = {{state.get(),
                                                std::span(ids).first(count),
                                                LogitsRows::kAll, num_drafts}};
    return absl::IsInvalidArgument(run_.spine().Embed(slices));
  };
  EXPECT_TRUE(refused(10, 8));  // more than seven
  EXPECT_TRUE(refused(3, 3));   // no token that stays
  EXPECT_TRUE(refused(3, -1));
}

TEST_F(DraftTest, TruncatingForgetsDrafts) {
  const Rows expected = OneByOne();
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 4), 3);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(run_.spine().RetainGeneration(*state)));
  EXPECT_EQ(run_.spine().TruncateTo(*state, 3).value(), 0);
  EXPECT_EQ(Step(*state, Ids(0, 3), 0)[2], expected[2]);
}

TEST_F(DraftTest, TheirRoomIsDescribedAndTakenOnce) {
  const SpineDescription description = run_.spine().description();
  // 9 KDA layers of 6 heads of 16: 7 rows of 4 x 16 + 1 floats, on lines.
  EXPECT_EQ(description.sequence_draft_bytes, int64_t{4} * 9 * 6 * 7 * 80);
  EXPECT_EQ(description.max_drafts, 7);
  auto state = run_.NewSequence();
  Step(*state, Ids(0, 2), 0);
  const int64_t before = state->bytes();
  Step(*state, Ids(2, 2), 1);
  Step(*state, Ids(4, 3), 2);
  EXPECT_EQ(state->bytes(), before + description.sequence_draft_bytes +
                                5 * description.sequence_token_bytes);
}

}  // namespace
}  // namespace deltafin::testing
