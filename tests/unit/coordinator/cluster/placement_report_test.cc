#include "coordinator/cluster/placement_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace deltafin {
namespace {

using ::testing::HasSubstr;

// 2 layers of 3 experts of 4 slices: 24 pairs.
constexpr ModelExtent kExtent = {1, 2, 3, 4, 2};

Member Node(const char* name, double weight) {
  Member member;
  member.id = name;
  member.name = name;
  member.state = MemberState::kServing;
  member.weight = weight;
  return member;
}

// "a" of three times the speed holds everything, "b" the last slice of layer 1
// alone.
Placement TwoNodes(int copies) {
  std::vector<Member> members = {Node("a", 3), Node("b", 1), Node("left", 1)};
  SliceSet holdings(1, 2, 3, 4);
  for (int expert = 0; expert < 3; ++expert) holdings.Add({1, expert}, {3, 1});
  members[1].holdings = std::make_shared<const SliceSet>(std::move(holdings));
  members[2].state = MemberState::kGone;
  PlacementOptions options;
  options.num_slices = 4;
  options.copies = copies;
  return Placement(7, options, std::move(members));
}

TEST(PlacementReportTest, CountsWantedHeldAndMissingByNode) {
  const auto report = ReportPlacement(TwoNodes(1), kExtent, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epoch(), 7u);
  EXPECT_EQ(report->policy(), "proportional");
  EXPECT_EQ(report->copies(), 1u);
  ASSERT_EQ(report->shares_size(), 2);
  const v1::PlacementReport::Share& a = report->shares(0);
  const v1::PlacementReport::Share& b = report->shares(1);
  EXPECT_EQ(a.node(), "a");
  EXPECT_DOUBLE_EQ(a.share(), 0.75);
  EXPECT_EQ(a.slices_wanted(), 18u);
  EXPECT_EQ(a.slices_held(), 24u);
  EXPECT_EQ(a.slices_missing(), 0u);
  EXPECT_EQ(b.slices_wanted(), 6u);
  EXPECT_EQ(b.slices_held(), 3u);
  EXPECT_GE(b.slices_missing(), 3u);
  EXPECT_EQ(a.slices_spare(), 6u);
  EXPECT_EQ(b.slices_spare(), 3 - (6 - b.slices_missing()));
  EXPECT_EQ(report->uncovered_slices(), 0u);
  EXPECT_EQ(report->runs_size(), 0);
}

TEST(PlacementReportTest, ASecondCopyIsWantedOfEverything) {
  const auto report = ReportPlacement(TwoNodes(2), kExtent, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->shares(0).slices_wanted(), 24u);
  EXPECT_EQ(report->shares(1).slices_wanted(), 24u);
  EXPECT_EQ(report->shares(1).slices_missing(), 21u);
}

TEST(PlacementReportTest, ShowsTheRunsOfOneExpertWithCopies) {
  v1::GetPlacementRequest request;
  request.set_one_expert(true);
  request.set_layer(2);
  request.set_expert(1);
  const auto report = ReportPlacement(TwoNodes(2), kExtent, request);
  ASSERT_TRUE(report.ok()) << report.status();
  std::vector<int> covered(2);
  for (const v1::PlacedRun& run : report->runs()) {
    ASSERT_LT(run.copy(), 2u);
    covered[run.copy()] += static_cast<int>(run.num_slices());
    EXPECT_EQ(run.held(), run.node() == "a");
  }
  EXPECT_EQ(covered, (std::vector<int>{4, 4}));
}

TEST(PlacementReportTest, RefusesAnExpertThatTheModelDoesNotHave) {
  for (const auto& [layer, expert] :
       {std::pair<uint32_t, uint32_t>{0, 0}, {3, 0}, {1, 3}, {~0u, ~0u}}) {
    v1::GetPlacementRequest request;
    request.set_one_expert(true);
    request.set_layer(layer);
    request.set_expert(expert);
    const absl::Status status =
        ReportPlacement(TwoNodes(1), kExtent, request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("layers 1 to 2 have experts 0 to 2"));
  }
}

}  // namespace
}  // namespace deltafin
