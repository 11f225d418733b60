#include "coordinator/cluster/cluster_health.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "coordinator/cluster/lane_counter.h"

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

CopyCounts CountsOf(std::vector<Member> members, int wanted) {
  return CountCopies(PlacementOf(std::move(members)), kExtent, wanted);
}

// 24 slices.
CopyState Copies(int wanted, CopyCounts counts, bool can_be_got = false) {
  return {wanted, counts, kExtent.num_pairs(), can_be_got};
}

TEST(ClusterHealthTest, CountsTheCopiesOfTheRarestSlice) {
  auto all_but_one = std::make_shared<SliceSet>(1, 2, 3, 4);
  for (int layer = 1; layer < 3; ++layer) {
    for (int expert = 0; expert < 3; ++expert) {
      all_but_one->Add({layer, expert}, {0, 4});
    }
  }
  EXPECT_EQ(CountsOf({Serving(all_but_one)}, 1).least, 1);
  all_but_one->Remove({2, 1}, {3, 1});
  EXPECT_EQ(CountsOf({Serving(all_but_one)}, 1).least, 0);
  EXPECT_EQ(CountsOf({Serving(all_but_one), Serving()}, 1).least, 1);
  EXPECT_EQ(CountsOf({}, 1).least, 0);
  Member suspect = Serving();
  suspect.state = kSuspect;
  EXPECT_EQ(CountsOf({Serving(), suspect}, 1).least, 1);
}

TEST(ClusterHealthTest, CountsWhatIsScarceAndWhatNobodyHas) {
  auto first = std::make_shared<SliceSet>(kExtent.NoSlices());
  auto second = std::make_shared<SliceSet>(kExtent.NoSlices());
  first->Add({1, 0}, {0, 4});
  first->Add({2, 2}, {0, 4});
  second->Add({1, 0}, {1, 2});
  const CopyCounts counts = CountsOf({Serving(first), Serving(second)}, 2);
  EXPECT_EQ(counts.least, 0);
  EXPECT_EQ(counts.none, 24 - 8);
  EXPECT_EQ(counts.scarce, 24 - 2);
  const CopyCounts with_all =
      CountsOf({Serving(first), Serving(second), Serving()}, 2);
  EXPECT_EQ(with_all.least, 1);
  EXPECT_EQ(with_all.none, 0);
  EXPECT_EQ(with_all.scarce, 24 - 8);
  EXPECT_EQ(CountsOf({Serving()}, 2).scarce, 24);
  EXPECT_EQ(CountsOf({Serving(), Serving()}, 2).scarce, 0);
}

TEST(LaneCounterTest, CountsEachLaneByItself) {
  std::mt19937_64 random(7);
  LaneCounter counter;
  std::vector<int> counts(64);
  for (int round = 0; round < 300; ++round) {
    const uint64_t lanes = random() & random();
    counter.Add(lanes);
    for (int lane = 0; lane < 64; ++lane) counts[lane] += lanes >> lane & 1;
  }
  EXPECT_EQ(counter.Least(~uint64_t{0}),
            *std::min_element(counts.begin(), counts.end()));
  EXPECT_EQ(counter.Least(uint64_t{1} << 17), counts[17]);
  for (const int bound : {1, 60, 75, 90, 300}) {
    for (int lane = 0; lane < 64; ++lane) {
      EXPECT_EQ(counter.Below(bound) >> lane & 1,
                counts[lane] < bound ? 1u : 0u)
          << bound << " " << lane;
    }
  }
}

TEST(ClusterHealthTest, HealthyWhenAllServe) {
  const std::vector<MemberSummary> members = {{"a", kServing}, {"b", kServing}};
  const Judgement judgement = JudgeCluster(members, Copies(1, {.least = 2}));
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::HEALTHY);
  EXPECT_EQ(judgement.reason, "2 nodes in service");
}

TEST(ClusterHealthTest, DegradedNamesWhoIsInTrouble) {
  const std::vector<MemberSummary> members = {
      {"a", kServing}, {"b", kSuspect}, {"c", kGone}, {"d", kGone}};
  const Judgement judgement = JudgeCluster(members, Copies(1, {.least = 1}));
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::DEGRADED);
  EXPECT_EQ(judgement.reason, "b is suspect, c and 1 more are gone");
}

TEST(ClusterHealthTest, DegradedWithFewerCopiesThanWanted) {
  const std::vector<MemberSummary> members = {{"a", kServing}};
  const Judgement judgement =
      JudgeCluster(members, Copies(2, {.least = 1, .scarce = 7}));
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::DEGRADED);
  EXPECT_EQ(judgement.reason,
            "7 of 24 slices of experts have fewer than 2 copies, the rarest 1");
}

TEST(ClusterHealthTest, DownWhenNobodyHasSomeExpert) {
  const std::vector<MemberSummary> members = {{"a", kServing}, {"b", kGone}};
  const Judgement lacking =
      JudgeCluster(members, Copies(1, {.none = 5, .scarce = 5}));
  EXPECT_EQ(lacking.verdict, v1::ClusterHealth::DOWN);
  EXPECT_EQ(lacking.reason,
            "5 of 24 slices of experts are on no node in service, and none can "
            "fetch them: b is gone");
  const std::vector<MemberSummary> suspects = {{"a", kSuspect}};
  EXPECT_EQ(JudgeCluster(suspects, Copies(1, {.none = 24})).reason,
            "no node is in service: a is suspect");
  EXPECT_EQ(JudgeCluster({}, Copies(1, {.none = 24})).verdict,
            v1::ClusterHealth::DOWN);
}

TEST(ClusterHealthTest, DegradedWhereWhatNobodyHasCanBeFetched) {
  const std::vector<MemberSummary> members = {{"a", kServing}};
  const Judgement judgement = JudgeCluster(
      members, Copies(1, {.none = 5, .scarce = 5}, /*can_be_got=*/true));
  EXPECT_EQ(judgement.verdict, v1::ClusterHealth::DEGRADED);
  EXPECT_EQ(judgement.reason,
            "5 of 24 slices of experts are on no node in service yet and are "
            "fetched where they are needed");
}

}  // namespace
}  // namespace deltafin
