#include "coordinator/cluster/meant_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "tests/unit/coordinator/cluster/copy_scene.h"

namespace deltafin {
namespace {

using testing::kExtent;
using testing::Scene;

TEST(MeantSlicesTest, AreTheRunsOfTheCut) {
  Scene scene(5, /*copies=*/2);
  scene.members[3].weight = 0;
  scene.Plan();
  const Placement& placement = *scene.plan->placement;
  int64_t homes = 0, all = 0;
  for (int slot = 0; slot < 5; ++slot) {
    homes += scene.plan->meant->homes(slot).size();
    all += scene.Meant(slot).size();
  }
  EXPECT_EQ(homes, kExtent.num_pairs());
  EXPECT_EQ(all, 2 * kExtent.num_pairs());
  EXPECT_EQ(scene.Meant(3).size(), 0);
  EXPECT_EQ(scene.Meant(99).size(), 0);
  std::vector<NodeRun> runs;
  placement.Cut({2, 7}, 1, &runs);
  for (const NodeRun& run : runs) {
    EXPECT_TRUE(scene.Meant(run.node).ContainsAll({2, 7}, run.slices));
  }
  const MeantSlices* const before = scene.plan->meant.get();
  scene.Hold(0, scene.Meant(0));
  scene.Plan();
  EXPECT_EQ(scene.plan->meant.get(), before);
  scene.members[0].weight = 2;
  scene.Plan();
  EXPECT_NE(scene.plan->meant.get(), before);
}

// 82,432 experts of 12 slices: prints what planning and a call take.
TEST(CopyOrdersTest, ToldForALargeModel) {
  // Of this process: others may be at work.
  const auto milliseconds = [](std::clock_t since) {
    return 1e3 * static_cast<double>(std::clock() - since) / CLOCKS_PER_SEC;
  };
  Scene scene(8, /*copies=*/2, ModelExtent{1, 92, 896, 12, 16, 1462272});
  scene.HoldEverything(0);
  std::clock_t begin = std::clock();
  scene.Plan();
  const double cut = milliseconds(begin);
  scene.Hold(1, scene.Meant(1));
  scene.members[0].state = MemberState::kGone;
  for (CopyPeer& peer : scene.peers) peer.has_source = true;
  scene.Plan();
  begin = std::clock();
  scene.Plan();
  const double plan = milliseconds(begin);
  double longest = 0;
  size_t orders = 0;
  for (int call = 0; call < 50; ++call) {
    begin = std::clock();
    orders += scene.Ask(2 + call % 6).orders.size();
    longest = std::max(longest, milliseconds(begin));
  }
  EXPECT_EQ(orders, 50u * 256);
  std::printf(
      "K3 on 8 members: cut %.1f ms, plan %.2f ms, longest call %.2f ms\n", cut,
      plan, longest);
}

}  // namespace
}  // namespace deltafin
