#include "coordinator/cluster/copy_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/coordinator/cluster/copy_scene.h"

namespace deltafin {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kExtent;
using testing::Same;
using testing::Scene;
using testing::SlicesOf;

TEST(CopyOrdersTest, AnEmptyMemberIsToldItsShareAndWhoHasIt) {
  Scene scene(3);
  scene.HoldEverything(0);
  scene.Plan();
  const CopyAnswer answer = scene.Ask(1);
  EXPECT_TRUE(Same(SlicesOf(answer.orders), scene.Meant(1)));
  EXPECT_EQ(answer.missing, scene.Meant(1).size());
  EXPECT_EQ(answer.missing, 384 / 3);
  for (const OrderedRun& order : answer.orders) {
    EXPECT_THAT(order.owners, ElementsAre("a"));
  }
  EXPECT_THAT(answer.surplus, IsEmpty());
  EXPECT_THAT(scene.Ask(0).orders, IsEmpty());
}

TEST(CopyOrdersTest, WhoHasAllThatItIsMeantToHaveGetsNoOrder) {
  Scene scene(2);
  scene.HoldEverything(0);
  scene.Plan();
  scene.Hold(1, scene.Meant(1));
  scene.Plan();
  EXPECT_THAT(scene.Ask(1).orders, IsEmpty());
  EXPECT_EQ(scene.Ask(1).missing, 0);
}

TEST(CopyOrdersTest, CallsGoOnWhereTheLastEndedAndBeginAgain) {
  Scene scene(2);
  scene.HoldEverything(0);
  scene.Plan();
  SliceSet told = kExtent.NoSlices();
  const size_t all = scene.Ask(1).orders.size();
  scene.cursors.clear();
  for (size_t i = 0; i < all; ++i) {
    const CopyAnswer answer = scene.Ask(1, 1);
    ASSERT_EQ(answer.orders.size(), 1u);
    const ExpertRun& run = answer.orders[0].run;
    EXPECT_FALSE(told.Contains(run.key, run.slices.first));
    told.Add(run.key, run.slices);
  }
  EXPECT_TRUE(Same(told, scene.Meant(1)));
  EXPECT_EQ(scene.Ask(1, 1).orders.size(), 1u);
}

TEST(CopyOrdersTest, OwnersAreSpreadAndBusyOnesComeLast) {
  Scene scene(4);
  for (int i = 0; i < 3; ++i) scene.HoldEverything(i);
  scene.Plan();
  std::map<std::string, int> first;
  for (const OrderedRun& order : scene.Ask(3).orders) {
    ASSERT_EQ(order.owners.size(), 3u);
    ++first[order.owners[0]];
  }
  for (const char* owner : {"a", "b", "c"}) EXPECT_GE(first[owner], 4);
  scene.peers[0].queue_depth = 40;
  for (const OrderedRun& order : scene.Ask(3).orders) {
    EXPECT_EQ(order.owners[2], "a");
  }
}

TEST(CopyOrdersTest, ARunIsCutWhereAnOwnerEnds) {
  Scene scene(3);
  SliceSet low = kExtent.NoSlices(), high = kExtent.NoSlices();
  for (int layer = 1; layer <= 2; ++layer) {
    for (int expert = 0; expert < 16; ++expert) {
      low.Add({layer, expert}, {0, 10});
      high.Add({layer, expert}, {9, 3});
    }
  }
  scene.Hold(0, low);
  scene.Hold(1, high);
  scene.Plan();
  for (const OrderedRun& order : scene.Ask(2).orders) {
    const SliceRun run = order.run.slices;
    const bool all_low = run.first + run.count <= 10;
    EXPECT_TRUE(all_low || run.first >= 9) << run.first << "+" << run.count;
    EXPECT_THAT(order.owners, Contains(all_low ? "a" : "b"));
  }
  EXPECT_TRUE(Same(SlicesOf(scene.Ask(2).orders), scene.Meant(2)));
}

TEST(CopyOrdersTest, WhatNobodyHasIsGotOnceAndHandedOn) {
  Scene scene(4);
  for (CopyPeer& peer : scene.peers) peer.has_source = true;
  scene.Plan();
  // Each expert's slices are all ordered from one member, without an owner.
  SliceSet got = kExtent.NoSlices();
  for (int slot = 0; slot < 4; ++slot) {
    const CopyAnswer answer = scene.Ask(slot);
    EXPECT_THAT(answer.orders, ::testing::SizeIs(::testing::Gt(0u)));
    for (const OrderedRun& order : answer.orders) {
      EXPECT_THAT(order.owners, IsEmpty());
      EXPECT_EQ(order.run.slices, (SliceRun{0, 12}));
      EXPECT_FALSE(got.Contains(order.run.key, 0));
      got.Add(order.run.key, order.run.slices);
    }
  }
  EXPECT_EQ(got.size(), kExtent.num_pairs());
  // All fill from there; nothing is asked of a source twice.
  int64_t from_sources = 0;
  for (int round = 0; round < 20; ++round) {
    for (int slot = 0; slot < 4; ++slot) {
      from_sources += scene.Obey(slot, 8);
      scene.Plan();
    }
  }
  EXPECT_EQ(from_sources, kExtent.num_pairs());
  for (int slot = 0; slot < 4; ++slot) EXPECT_EQ(scene.plan->missing(slot), 0);
}

TEST(CopyOrdersTest, AnotherTurnLetsAnotherTry) {
  Scene scene(4);
  for (CopyPeer& peer : scene.peers) peer.has_source = true;
  scene.Plan();
  const SliceSet before = SlicesOf(scene.Ask(0).orders);
  scene.request.turn = 1;
  const SliceSet after = SlicesOf(scene.Ask(0).orders);
  SliceSet both = before;
  both.IntersectWith(after);
  EXPECT_EQ(both.size(), 0);
}

TEST(CopyOrdersTest, WithoutRoomToHandOnEachGetsItsOwnFromItsSource) {
  Scene scene(2);
  for (CopyPeer& peer : scene.peers) {
    peer.has_source = true;
    peer.room = 192;  // what is missing and no more
  }
  scene.Plan();
  EXPECT_TRUE(Same(SlicesOf(scene.Ask(0).orders), scene.Meant(0)));
}

TEST(CopyOrdersTest, WhoHasNoSourceWaitsForThoseWhoHave) {
  Scene scene(2);
  scene.peers[0].has_source = true;
  scene.Plan();
  EXPECT_THAT(scene.Ask(1).orders, IsEmpty());
  EXPECT_EQ(scene.Ask(1).missing, 192);
  scene.Obey(0);
  scene.Plan();
  EXPECT_TRUE(Same(SlicesOf(scene.Ask(1).orders), scene.Meant(1)));
}

TEST(CopyOrdersTest, TheCoordinatorIsTheLastOwner) {
  Scene scene(3);
  scene.request.coordinator_supplies = true;
  scene.Plan();
  const CopyAnswer bare = scene.Ask(1);
  EXPECT_TRUE(Same(SlicesOf(bare.orders), scene.Meant(1)));
  for (const OrderedRun& order : bare.orders) {
    EXPECT_THAT(order.owners, ElementsAre("coordinator"));
  }
  scene.HoldEverything(0);
  scene.Plan();
  for (const OrderedRun& order : scene.Ask(1).orders) {
    EXPECT_THAT(order.owners, ElementsAre("a", "coordinator"));
  }
}

TEST(CopyOrdersTest, TheWholeModelComesBeforeSecondCopies) {
  Scene scene(3, /*copies=*/2);
  scene.request.coordinator_supplies = true;
  scene.Plan();
  // Member 0 has its own share and lacks a second copy of others'; the rest of
  // the model is on no node.
  scene.Hold(0, scene.plan->meant->homes(0));
  scene.Plan();
  EXPECT_GT(scene.plan->missing(0), 0);
  EXPECT_THAT(scene.Ask(0).orders, IsEmpty());
  scene.Hold(1, scene.plan->meant->homes(1));
  scene.Hold(2, scene.plan->meant->homes(2));
  scene.Plan();
  EXPECT_TRUE(Same(SlicesOf(scene.Ask(0).orders), [&] {
    SliceSet further = scene.Meant(0);
    further.Subtract(scene.plan->meant->homes(0));
    return further;
  }()));
}

TEST(CopyOrdersTest, WhatNobodyCanGetHoldsUpNoSecondCopy) {
  Scene scene(3, /*copies=*/2);
  scene.Plan();
  SliceSet all_but_one = scene.plan->meant->homes(0);
  ExpertRun run;
  int64_t at = 0;
  ASSERT_TRUE(all_but_one.NextRun(&at, &run));
  all_but_one.Remove(run.key, run.slices);
  scene.Hold(0, all_but_one);
  scene.Hold(1, scene.plan->meant->homes(1));
  scene.Hold(2, scene.plan->meant->homes(2));
  scene.Plan();
  EXPECT_FALSE(scene.Ask(1).orders.empty());
}

TEST(CopyOrdersTest, FurtherCopiesTakeTheRoomThatTheShareLeaves) {
  Scene scene(2, /*copies=*/2);
  scene.HoldEverything(0);
  scene.peers[1].room = 0;
  scene.Plan();
  // The share comes whether there is room or not; a copy does not.
  EXPECT_TRUE(Same(SlicesOf(scene.Ask(1).orders), scene.plan->meant->homes(1)));
  scene.peers[1].room = 192 + 50;
  scene.cursors.clear();
  EXPECT_EQ(SlicesOf(scene.Ask(1).orders).size(), 192 + 50);
}

TEST(CopyOrdersTest, WhatOnlyALeavingMemberHasComesFirst) {
  Scene scene(3);
  scene.Plan();
  for (int i = 0; i < 3; ++i) scene.Hold(i, scene.Meant(i));
  const SliceSet leaving = scene.Meant(0);
  // Of one expert member 1 has nothing, and member 2 all.
  SliceSet one = scene.Meant(1), two = scene.Meant(2);
  one.Remove({1, 3}, {0, 12});
  two.Add({1, 3}, {0, 12});
  scene.Hold(1, one);
  scene.Hold(2, two);
  scene.members[0].state = MemberState::kDraining;
  scene.Plan();
  SliceSet wanted = scene.Meant(1);
  wanted.Subtract(one);
  SliceSet urgent = wanted;
  urgent.IntersectWith(leaving);
  urgent.Subtract(two);
  ASSERT_GT(urgent.size(), 0);
  ASSERT_LT(urgent.size(), wanted.size());
  SliceSet told = kExtent.NoSlices();
  for (const OrderedRun& order : scene.Ask(1).orders) {
    const bool is_urgent = order.run.key != ExpertKey{1, 3};
    EXPECT_EQ(is_urgent, urgent.CountNotIn(told) > 0);
    EXPECT_THAT(order.owners, Contains(is_urgent ? "a" : "c"));
    told.Add(order.run.key, order.run.slices);
  }
  EXPECT_TRUE(Same(told, wanted));
  EXPECT_THAT(scene.Ask(0).orders, IsEmpty());
}

TEST(CopyOrdersTest, AMemberThatIsAwayForAShortTimeKeepsItsShare) {
  Scene scene(3);
  scene.Plan();
  for (int i = 0; i < 3; ++i) scene.Hold(i, scene.Meant(i));
  const Placement all_there(1, scene.options, scene.members);
  scene.members[0].state = MemberState::kSuspect;
  const auto now =
      std::make_shared<const Placement>(2, scene.options, scene.members);
  scene.plan = CopyPlan::Make(now, all_there, kExtent, scene.plan.get());
  EXPECT_THAT(scene.Ask(1).orders, IsEmpty());
  EXPECT_THAT(scene.Ask(1).surplus, IsEmpty());
  scene.plan = CopyPlan::Make(now, *now, kExtent, scene.plan.get());
  EXPECT_GT(scene.plan->missing(1), 0);
}

TEST(CopyOrdersTest, SurplusIsWhatOthersKeep) {
  Scene scene(3);
  scene.Plan();
  const SliceSet whole = kExtent.NoSlices().Complement();
  scene.Hold(0, scene.Meant(0));
  scene.Hold(1, whole);
  scene.Hold(2, whole);  // both have what neither is meant to have
  scene.Plan();
  SliceSet surplus = kExtent.NoSlices();
  for (const ExpertRun& run : scene.Ask(1).surplus) {
    surplus.Add(run.key, run.slices);
  }
  SliceSet expected = scene.Meant(0);
  expected.UnionWith(scene.Meant(2));
  EXPECT_TRUE(Same(surplus, expected));
  // What its home lacks is kept by both that have it.
  scene.Hold(0, kExtent.NoSlices());
  scene.Plan();
  scene.cursors.clear();
  for (const ExpertRun& run : scene.Ask(1).surplus) {
    EXPECT_TRUE(scene.Meant(2).ContainsAll(run.key, run.slices));
  }
  // With two copies wanted one other is not enough.
  scene.options.copies = 2;
  scene.Plan();
  scene.cursors.clear();
  for (const ExpertRun& run : scene.Ask(1).surplus) {
    EXPECT_FALSE(scene.Meant(1).Contains(run.key, run.slices.first));
    EXPECT_TRUE(scene.Meant(2).ContainsAll(run.key, run.slices));
  }
}

}  // namespace
}  // namespace deltafin
