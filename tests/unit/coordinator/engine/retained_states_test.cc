#include "coordinator/engine/retained_states.h"

#include <gtest/gtest.h>

#include <numeric>

namespace deltafin {
namespace {

class SizedState : public SequenceState {
 public:
  SizedState(int64_t num_tokens, int64_t bytes)
      : num_tokens_(num_tokens), bytes_(bytes) {}
  int64_t num_tokens() const override { return num_tokens_; }
  int64_t bytes() const override { return bytes_; }

 private:
  int64_t num_tokens_;
  int64_t bytes_;
};

using Ids = std::vector<int32_t>;

constexpr int64_t kPlenty = 1 << 20;

void Insert(RetainedStates& states, const Ids& ids, int64_t bytes = 100,
            int64_t limit = kPlenty) {
  states.Insert(ids, std::make_unique<SizedState>(std::ssize(ids), bytes),
                limit);
}

// The length of the state that is found, -1: none.
int64_t Find(RetainedStates& states, const Ids& ids) {
  const SequenceState* found = states.FindLongestPrefix(ids);
  return found == nullptr ? -1 : found->num_tokens();
}

TEST(RetainedStatesTest, FindsTheLongestBeginningAmongNeighbours) {
  RetainedStates states;
  EXPECT_EQ(Find(states, {1, 2}), -1);
  for (const Ids& ids : {Ids{1, 2}, Ids{1, 2, 3, 4}, Ids{1, 2, 3, 5, 6},
                         Ids{1, 3}, Ids{2}, Ids{1, 2, 3, 4, 4, 9}}) {
    Insert(states, ids);
  }
  EXPECT_EQ(Find(states, {1, 2, 3, 4, 5, 6}), 4);
  EXPECT_EQ(Find(states, {1, 2, 3, 4}), 4);
  EXPECT_EQ(Find(states, {1, 2, 3}), 2);
  EXPECT_EQ(Find(states, {1, 2, 9}), 2);
  EXPECT_EQ(Find(states, {1, 9}), -1);
  EXPECT_EQ(Find(states, {1}), -1);
  EXPECT_EQ(Find(states, {2, 0, 0}), 1);
  EXPECT_EQ(Find(states, {}), -1);
}

// Against looking at all of them, over every string of three letters up to
// length five.
TEST(RetainedStatesTest, AgreesWithASearchThroughAll) {
  std::vector<Ids> all = {{}};
  for (size_t i = 0; all[i].size() < 5; ++i) {
    for (const int32_t id : {0, 1, 2}) {
      Ids longer = all[i];
      longer.push_back(id);
      all.push_back(std::move(longer));
    }
  }
  RetainedStates states;
  std::vector<Ids> kept;
  for (size_t i = 1; i < all.size(); i += 7) {
    Insert(states, all[i]);
    kept.push_back(all[i]);
  }
  for (const Ids& ids : all) {
    int64_t longest = -1;
    for (const Ids& key : kept) {
      if (key.size() <= ids.size() &&
          std::equal(key.begin(), key.end(), ids.begin())) {
        longest = std::max<int64_t>(longest, std::ssize(key));
      }
    }
    EXPECT_EQ(Find(states, ids), longest);
  }
}

TEST(RetainedStatesTest, LetsGoOfWhatWasNotUsedForLongest) {
  RetainedStates states;
  Insert(states, {1}, 96, 300);  // 100 with its id
  Insert(states, {2}, 96, 300);
  Insert(states, {3}, 96, 300);
  EXPECT_EQ(states.bytes(), 300);
  EXPECT_EQ(Find(states, {1, 7}), 1);  // a use
  Insert(states, {4}, 96, 300);
  EXPECT_EQ(states.evictions(), 1);
  EXPECT_EQ(Find(states, {2}), -1);
  EXPECT_EQ(Find(states, {1}), 1);
  EXPECT_EQ(Find(states, {3}), 1);
  EXPECT_TRUE(states.Touch(Ids{4}));
  states.ShrinkTo(100);
  EXPECT_EQ(states.size(), 1u);
  EXPECT_EQ(Find(states, {4}), 1);
  EXPECT_FALSE(states.Touch(Ids{3}));
}

TEST(RetainedStatesTest, WhatDoesNotFitAloneIsDroppedAndHarmsNobody) {
  RetainedStates states;
  Insert(states, {1}, 96, 300);
  Insert(states, {2}, 500, 300);
  EXPECT_EQ(states.size(), 1u);
  EXPECT_EQ(Find(states, {1}), 1);
  EXPECT_EQ(states.evictions(), 0);
}

TEST(RetainedStatesTest, TheSameIdsAreKeptOnce) {
  RetainedStates states;
  Insert(states, {1, 2}, 92);
  Insert(states, {1, 2}, 500);
  EXPECT_EQ(states.size(), 1u);
  EXPECT_EQ(states.bytes(), 100);
}

TEST(RetainedStatesTest, TheirNumberIsBoundedToo) {
  RetainedStates states;
  for (int32_t i = 0; i < 1100; ++i) Insert(states, {i}, 1);
  EXPECT_EQ(states.size(), RetainedStates::kMaxStates);
  EXPECT_EQ(Find(states, {75}), -1);
  EXPECT_EQ(Find(states, {76}), 1);
  while (states.EvictOldest()) {
  }
  EXPECT_EQ(states.bytes(), 0);
}

}  // namespace
}  // namespace deltafin
