#include "coordinator/cluster/slice_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace deltafin {
namespace {

TEST(SliceSetTest, AddsAndRemovesRuns) {
  SliceSet set(1, 3, 5, 12);
  set.Add({3, 4}, {2, 10});
  set.Remove({3, 4}, {5, 1});
  EXPECT_EQ(set.size(), 9);
  EXPECT_TRUE(set.Contains({3, 4}, 11));
  EXPECT_FALSE(set.Contains({3, 4}, 5));
  EXPECT_TRUE(set.ContainsAll({3, 4}, {2, 3}));
  EXPECT_FALSE(set.ContainsAll({3, 4}, {2, 4}));
}

TEST(SliceSetTest, NextRunFindsEveryRunOfEveryExpert) {
  SliceSet set(1, 3, 50, 12);
  const std::vector<ExpertRun> added = {{{1, 0}, {0, 12}}, {{1, 1}, {0, 1}},
                                        {{1, 1}, {3, 2}},  {{2, 49}, {11, 1}},
                                        {{3, 0}, {0, 5}},  {{3, 49}, {6, 6}}};
  for (const ExpertRun& run : added) set.Add(run.key, run.slices);
  int64_t at = 0;
  ExpertRun run;
  for (const ExpertRun& wanted : added) {
    ASSERT_TRUE(set.NextRun(&at, &run));
    EXPECT_EQ(run.key, wanted.key);
    EXPECT_EQ(run.slices, wanted.slices);
  }
  EXPECT_FALSE(set.NextRun(&at, &run));
  at = 15;  // inside the gap of expert 1, before slice 3
  ASSERT_TRUE(set.NextRun(&at, &run));
  EXPECT_EQ(run.slices, (SliceRun{3, 2}));
  at = 16;  // inside that run
  ASSERT_TRUE(set.NextRun(&at, &run));
  EXPECT_EQ(run.slices, (SliceRun{4, 1}));
}

TEST(SliceSetTest, SetsAreUnitedSubtractedAndComplemented) {
  SliceSet a(1, 2, 3, 12);  // 72 pairs: a word and a bit
  SliceSet b = a;
  a.Add({1, 0}, {0, 12});
  b.Add({1, 0}, {6, 6});
  b.Add({2, 2}, {0, 12});
  EXPECT_EQ(b.CountNotIn(a), 12);
  EXPECT_EQ(a.CountNotIn(b), 6);
  SliceSet both = a;
  both.IntersectWith(b);
  EXPECT_EQ(both.size(), 6);
  SliceSet either = a;
  either.UnionWith(b);
  EXPECT_EQ(either.size(), 24);
  EXPECT_EQ(either.Complement().size(), 72 - 24);
  EXPECT_EQ(either.Complement().Complement().size(), 24);
  either.Subtract(a);
  EXPECT_EQ(either.size(), 12);
  EXPECT_TRUE(either.ContainsAll({2, 2}, {0, 12}));
}

TEST(SliceSetTest, SurvivesTheWire) {
  SliceSet set(1, 2, 3, 12);
  set.Add({1, 0}, {0, 12});
  set.Add({2, 1}, {7, 2});
  v1::Holdings wire;
  set.ToProto(&wire);
  EXPECT_EQ(wire.bytes_per_expert(), 2u);
  EXPECT_EQ(wire.layers(0), std::string("\xff\x0f\0\0\0\0", 6));
  const auto read = SliceSet::FromProto(wire, 1, 2, 3, 12);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->size(), 14);
  EXPECT_TRUE(read->ContainsAll({2, 1}, {7, 2}));
}

TEST(SliceSetTest, RefusesWhatDoesNotFitTheModel) {
  v1::Holdings wire;
  SliceSet(1, 2, 3, 12).ToProto(&wire);
  EXPECT_EQ(SliceSet::FromProto(wire, 1, 2, 3, 3).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SliceSet::FromProto(wire, 1, 3, 3, 12).status().code(),
            absl::StatusCode::kInvalidArgument);
  wire.mutable_layers(1)->pop_back();
  const auto status = SliceSet::FromProto(wire, 1, 2, 3, 12).status();
  EXPECT_NE(status.message().find("holdings.layers size is 5, this model "
                                  "needs 6"),
            std::string::npos)
      << status;
}

}  // namespace
}  // namespace deltafin
