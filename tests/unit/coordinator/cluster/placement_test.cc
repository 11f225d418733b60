#include "coordinator/cluster/placement.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

Member MakeMember(MemberState state, double weight = 1) {
  Member member;
  member.id = "id";
  member.state = state;
  member.weight = weight;
  return member;
}

Placement Make(std::vector<Member> members, int copies = 1) {
  PlacementOptions options;
  options.num_slices = 12;
  options.copies = copies;
  return Placement(7, options, std::move(members));
}

std::vector<NodeRun> Cut(const Placement& placement, int copy = 0) {
  std::vector<NodeRun> runs;
  placement.Cut({1, 0}, copy, &runs);
  return runs;
}

TEST(PlacementTest, OnlyServingMembersWithWeightShare) {
  const Placement placement = Make(
      {MakeMember(MemberState::kGone), MakeMember(MemberState::kServing),
       MakeMember(MemberState::kSuspect), MakeMember(MemberState::kDraining),
       MakeMember(MemberState::kJoining), MakeMember(MemberState::kServing),
       MakeMember(MemberState::kServing, 0)});
  EXPECT_EQ(Cut(placement), (std::vector<NodeRun>{{1, {0, 6}}, {5, {6, 6}}}));
  EXPECT_EQ(placement.epoch(), 7u);
}

TEST(PlacementTest, WithoutServingMembersAllThatCanWorkShare) {
  const Placement placement = Make(
      {MakeMember(MemberState::kSuspect), MakeMember(MemberState::kGone),
       MakeMember(MemberState::kDraining), MakeMember(MemberState::kJoining)});
  EXPECT_EQ(Cut(placement), (std::vector<NodeRun>{{0, {0, 6}}, {2, {6, 6}}}));
}

TEST(PlacementTest, NobodyMeansNoRuns) {
  EXPECT_TRUE(Cut(Make({})).empty());
  EXPECT_TRUE(Cut(Make({MakeMember(MemberState::kGone)})).empty());
}

TEST(PlacementTest, CopiesAreOnOtherMembers) {
  const Placement placement =
      Make({MakeMember(MemberState::kServing), MakeMember(MemberState::kGone),
            MakeMember(MemberState::kServing)},
           2);
  EXPECT_EQ(Cut(placement, 1),
            (std::vector<NodeRun>{{2, {0, 6}}, {0, {6, 6}}}));
  EXPECT_TRUE(Cut(placement, 2).empty());
}

TEST(PlacementTest, AMemberHoldsWhatItsSetContains) {
  std::vector<Member> members = {MakeMember(MemberState::kServing),
                                 MakeMember(MemberState::kServing),
                                 MakeMember(MemberState::kGone)};
  auto set = std::make_shared<SliceSet>(1, 2, 4, 12);
  set->Add({2, 3}, {4, 3});
  members[0].holdings = set;
  const Placement placement = Make(std::move(members));
  EXPECT_TRUE(placement.Holds(0, {2, 3}, {5, 2}));
  EXPECT_FALSE(placement.Holds(0, {2, 3}, {5, 3}));
  EXPECT_FALSE(placement.Holds(0, {1, 3}, {5, 2}));
  EXPECT_TRUE(placement.Holds(1, {1, 3}, {5, 2}));
  EXPECT_FALSE(placement.Holds(2, {1, 3}, {5, 2}));
}

TEST(PlacementTest, AMemberReachesWhatOthersHoldOrWhatItsSourceHas) {
  std::vector<Member> members(4, MakeMember(MemberState::kServing));
  SliceSet set(1, 2, 4, 12);
  for (Member& member : members) {
    member.holdings = std::make_shared<const SliceSet>(set);
  }
  set.Add({2, 3}, {4, 3});
  members[0].holdings = std::make_shared<const SliceSet>(set);
  members[1].fetches = FetchReach::kMembers;
  members[2].fetches = FetchReach::kAll;
  const Placement placement = Make(members);
  EXPECT_TRUE(placement.Reaches(0, {2, 3}, {4, 3}));
  EXPECT_FALSE(placement.Reaches(0, {2, 3}, {4, 4}));
  EXPECT_TRUE(placement.Reaches(1, {2, 3}, {4, 3}));
  EXPECT_FALSE(placement.Reaches(1, {2, 3}, {3, 3}));
  EXPECT_TRUE(placement.Reaches(2, {2, 3}, {0, 12}));
  EXPECT_FALSE(placement.Reaches(3, {2, 3}, {4, 1}));
  members[0].state = members[2].state = MemberState::kGone;
  const Placement without = Make(members);
  EXPECT_FALSE(without.Reaches(1, {2, 3}, {4, 1}));
  EXPECT_FALSE(without.Reaches(2, {2, 3}, {4, 1}));
}

}  // namespace
}  // namespace deltafin
