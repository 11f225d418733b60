#include "coordinator/cluster/cluster_health.h"

#include <gtest/gtest.h>

#include <memory>

namespace deltafin {
namespace {

constexpr ModelExtent kExtent = {1, 2, 3, 4, 2};
constexpr auto kServing = MemberState::kServing;
constexpr auto kSuspect = MemberState::kSuspect;
constexpr auto kGone = MemberState::kGone;

Member Serving(std::shared_ptr<const SliceSet> holdings = nullptr) {
  Member member;
  member.id = "a";
  member.state = kServing;
  member.weight = 1;
  member.holdings = std::move(holdings);
  return member;
}

Placement PlacementOf(std::vector<Member> members) {
  PlacementOptions options;
  options.num_slices = kExtent.num_slices;
  return Placement(1, options, std::move(members));
}

TEST(ClusterHealthTest, CountsTheCopiesOfTheRarestSlice) {
  auto all_but_one = std::make_shared<SliceSet>(1, 2, 3, 4);
  for (int layer = 1; layer < 3; ++layer) {
    for (int expert = 0; expert < 3; ++expert) {
      all_but_one->Add({layer, expert}, {0, 4});
    }
  }
  EXPECT_EQ(LeastCopies(PlacementOf({Serving(all_but_one)}), kExtent), 1);
  all_but_one->Remove({2, 1}, {3, 1});
  EXPECT_EQ(LeastCopies(PlacementOf({Serving(all_but_one)}), kExtent), 0);
  EXPECT_EQ(
      LeastCopies(PlacementOf({Serving(all_but_one), Serving()}), kExtent), 1);
  EXPECT_EQ(LeastCopies(PlacementOf({}), kExtent), 0);
  Member suspect = Serving();
  suspect.state = kSuspect;
  EXPECT_EQ(LeastCopies(PlacementOf({Serving(), suspect}), kExtent), 1);
}

TEST(ClusterHealthTest, HealthyWhenAllServe) {
  const std::vector<MemberSummary> members = {{"a", kServing}, {"b", kServing}};
  const Judgement judgement = JudgeCluster(members, 1, 2);
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::HEALTHY);
  EXPECT_EQ(judgement.reason, "2 nodes in service");
}

TEST(ClusterHealthTest, DegradedNamesWhoIsInTrouble) {
  const std::vector<MemberSummary> members = {
      {"a", kServing}, {"b", kSuspect}, {"c", kGone}, {"d", kGone}};
  const Judgement judgement = JudgeCluster(members, 1, 1);
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::DEGRADED);
  EXPECT_EQ(judgement.reason, "b is suspect, c and 1 more are gone");
}

TEST(ClusterHealthTest, DegradedWithFewerCopiesThanWanted) {
  const std::vector<MemberSummary> members = {{"a", kServing}};
  const Judgement judgement = JudgeCluster(members, 2, 1);
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::DEGRADED);
  EXPECT_EQ(judgement.reason, "some experts have 1 of 2 copies");
}

TEST(ClusterHealthTest, DownWhenNobodyHasSomeExpert) {
  const std::vector<MemberSummary> members = {{"a", kServing}, {"b", kGone}};
  const Judgement lacking = JudgeCluster(members, 1, 0);
  EXPECT_EQ(lacking.verdict, v1::ClusterHealth::DOWN);
  EXPECT_EQ(lacking.reason,
            "some experts are on no node in service: b is gone");
  const std::vector<MemberSummary> suspects = {{"a", kSuspect}};
  EXPECT_EQ(JudgeCluster(suspects, 1, 0).reason,
            "no node is in service: a is suspect");
  EXPECT_EQ(JudgeCluster({}, 1, 0).verdict, v1::ClusterHealth::DOWN);
}

}  // namespace
}  // namespace deltafin
