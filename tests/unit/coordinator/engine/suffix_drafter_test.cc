#include "coordinator/engine/suffix_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Draft FindIn(const std::vector<int32_t>& ids, int max_ids = 4) {
  SuffixDrafter drafter;
  return drafter.Find(ids, max_ids);
}

TEST(SuffixDrafterTest, GoesOnAsItWentOnBefore) {
  const Draft draft = FindIn({9, 1, 2, 3, 4, 5, 6, 7, 1, 2, 3});
  EXPECT_THAT(draft.ids, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(draft.match_length, 3);
}

TEST(SuffixDrafterTest, OneEqualTokenIsNoMatch) {
  EXPECT_THAT(FindIn({1, 2, 3, 4, 1}).ids, IsEmpty());
  EXPECT_THAT(FindIn({1}).ids, IsEmpty());
  EXPECT_THAT(FindIn({}).ids, IsEmpty());
  EXPECT_THAT(FindIn({1, 2, 3, 1, 2}, 0).ids, IsEmpty());
}

TEST(SuffixDrafterTest, PrefersTheLongestMatchThenTheLatest) {
  // After 1 2 3 came 4, later after 2 3 came 5.
  EXPECT_THAT(FindIn({1, 2, 3, 4, 7, 2, 3, 5, 1, 2, 3}, 1).ids, ElementsAre(4));
  EXPECT_THAT(FindIn({1, 2, 3, 4, 0, 1, 2, 3, 5, 0, 8, 2, 3}, 1).ids,
              ElementsAre(5));
}

TEST(SuffixDrafterTest, ARepetitionGoesOnRepeating) {
  EXPECT_THAT(FindIn({5, 5, 5}, 4).ids, ElementsAre(5, 5, 5, 5));
  EXPECT_THAT(FindIn({1, 2, 3, 1, 2, 3, 1, 2}, 5).ids,
              ElementsAre(3, 1, 2, 3, 1));
}

TEST(SuffixDrafterTest, LearnsAsTheSequenceGrows) {
  SuffixDrafter growing;
  std::vector<int32_t> ids;
  uint32_t state = 1;
  for (int i = 0; i < 500; ++i) {
    state = state * 1664525 + 1013904223;
    ids.push_back(static_cast<int32_t>(state >> 30));  // four tokens
    const Draft grown = growing.Find(ids, 3);
    SuffixDrafter fresh;
    const Draft at_once = fresh.Find(ids, 3);
    ASSERT_EQ(grown.ids, at_once.ids) << i;
    ASSERT_EQ(grown.match_length, at_once.match_length) << i;
  }
}

TEST(SuffixDrafterTest, AMatchIsCountedUpToItsBound) {
  std::vector<int32_t> ids;
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (int32_t i = 0; i < 100; ++i) ids.push_back(i);
  }
  const Draft draft = FindIn(ids, 2);
  EXPECT_EQ(draft.match_length, SuffixDrafter::kMaxMatch);
  EXPECT_THAT(draft.ids, ElementsAre(0, 1));
}

}  // namespace
}  // namespace deltafin
