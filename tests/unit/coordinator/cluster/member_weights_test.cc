#include "coordinator/cluster/member_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kSlices = 384;  // 16 experts of 24 slices

std::vector<double> Weights(const std::vector<MemberSpeed>& speeds) {
  std::vector<double> weights;
  for (const MemberWeight& member : WeighMembers(speeds, kSlices)) {
    weights.push_back(member.weight);
  }
  return weights;
}

TEST(MemberWeightsTest, MachinesThatAreNotMeasuredAreEqual) {
  EXPECT_THAT(Weights({{}, {}, {}}), ElementsAre(1, 1, 1));
  EXPECT_THAT(Weights({}), ElementsAre());
}

TEST(MemberWeightsTest, TheSlowerOfReadingAndComputingCounts) {
  EXPECT_THAT(Weights({{2e9, 8e9}, {8e9, 3e9}, {4e9, 9e9}}),
              ElementsAre(2e9, 3e9, 4e9));
  // A kernel is no drive: nobody knows how fast the second one's reads.
  EXPECT_THAT(Weights({{2e9, 20e9}, {0, 20e9}}), ElementsAre(2e9, 2e9));
  EXPECT_THAT(Weights({{2e9, 20e9}, {0, 1e9}}), ElementsAre(2e9, 1e9));
}

TEST(MemberWeightsTest, WhoIsNotMeasuredCountsAsTheMean) {
  EXPECT_THAT(Weights({{1e9, 0}, {3e9, 0}, {}}), ElementsAre(1e9, 3e9, 2e9));
  EXPECT_THAT(Weights({{0, 1e9}, {0, 3e9}, {}}), ElementsAre(1e9, 3e9, 2e9));
}

TEST(MemberWeightsTest, MachinesThatAreAlikeAreEqual) {
  EXPECT_THAT(Weights({{1.1e9, 0}, {2e9, 0}, {1e9, 0}, {2.2e9, 0}}),
              ElementsAre(1.05e9, 2.1e9, 1.05e9, 2.1e9));
  // As alike as the slowest, not as their neighbours.
  EXPECT_THAT(Weights({{1e9, 0}, {1.1e9, 0}, {1.2e9, 0}}),
              ElementsAre(1.05e9, 1.05e9, 1.2e9));
}

TEST(MemberWeightsTest, ARateThatHardlyChangesStaysInUse) {
  const MemberSpeed in_use{1e9, 5e9};
  const MemberSpeed near = SpeedInUse(in_use, {1.09e9, 4.6e9});
  EXPECT_EQ(near.read, 1e9);
  EXPECT_EQ(near.kernel, 5e9);
  const MemberSpeed far = SpeedInUse(in_use, {0.8e9, 5.6e9});
  EXPECT_EQ(far.read, 0.8e9);
  EXPECT_EQ(far.kernel, 5.6e9);
  EXPECT_EQ(SpeedInUse({}, {1, 0}).read, 1);
}

TEST(MemberWeightsTest, ASlowMachineIsLeftOutAndTold) {
  // Four slices a second less of work for the fast one, but one slice takes the
  // slow one as long as 100 take the fast.
  const auto weights =
      WeighMembers(std::vector<MemberSpeed>{{4e9, 0}, {0.04e9, 0}}, kSlices);
  EXPECT_EQ(weights[0].weight, 4e9);
  EXPECT_EQ(weights[1].weight, 0);
  EXPECT_THAT(weights[1].remark, HasSubstr("0.04 GB/s"));
}

TEST(MemberWeightsTest, AMachineThatHelpsStays) {
  EXPECT_THAT(Weights({{1e9, 0}, {2e9, 0}, {4e9, 0}}),
              ElementsAre(1e9, 2e9, 4e9));
  // However many: none rounds worse than the others.
  const std::vector<double> equal =
      Weights(std::vector<MemberSpeed>(256, {1e9, 0}));
  EXPECT_EQ(std::count(equal.begin(), equal.end(), 1e9), 256);
}

TEST(MemberWeightsTest, TheLastMachineIsNeverLeftOut) {
  EXPECT_THAT(Weights({{1, 0}}), ElementsAre(1));
}

}  // namespace
}  // namespace deltafin
