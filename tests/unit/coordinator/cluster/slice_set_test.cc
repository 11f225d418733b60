#include "coordinator/cluster/slice_set.h"

#include <gtest/gtest.h>

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
