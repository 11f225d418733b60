#include "coordinator/cluster/slice_owners.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RegistryTest;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr ExpertKey kKey = {1, 2};

// Of a model with layers 1 and 2, 3 experts, 4 slices.
Member Holder(MemberState state, std::vector<SliceRun> runs) {
  Member member;
  member.name = "127.0.0.1:7000";
  member.state = state;
  member.weight = 1;
  auto holdings = std::make_shared<SliceSet>(1, 2, 3, 4);
  for (const SliceRun run : runs) holdings->Add(kKey, run);
  member.holdings = std::move(holdings);
  return member;
}

Placement Make(std::vector<Member> members) {
  PlacementOptions options;
  options.num_slices = 4;
  return Placement(7, options, std::move(members));
}

TEST(SliceOwnersTest, PartsARunByWhoHoldsIt) {
  const Placement placement =
      Make({Holder(MemberState::kServing, {{0, 4}}),  // asks
            Holder(MemberState::kServing, {{0, 2}}),
            Holder(MemberState::kServing, {{1, 2}}),
            Holder(MemberState::kGone, {{0, 4}})});
  const auto owned = OwnersOf(placement, 0, kKey, {0, 4});
  ASSERT_THAT(owned, SizeIs(4));
  EXPECT_EQ(owned[0].run, (SliceRun{0, 1}));
  EXPECT_THAT(owned[0].slots, ElementsAre(1));
  EXPECT_EQ(owned[1].run, (SliceRun{1, 1}));
  EXPECT_THAT(owned[1].slots, UnorderedElementsAre(1, 2));
  EXPECT_THAT(owned[2].slots, ElementsAre(2));
  EXPECT_EQ(owned[3].run, (SliceRun{3, 1}));
  EXPECT_THAT(owned[3].slots, IsEmpty());
}

TEST(SliceOwnersTest, ServingMembersComeFirst) {
  const Placement placement = Make({Holder(MemberState::kSuspect, {{0, 4}}),
                                    Holder(MemberState::kDraining, {{0, 4}}),
                                    Holder(MemberState::kServing, {{0, 4}})});
  const auto owned = OwnersOf(placement, -1, kKey, {1, 3});
  ASSERT_THAT(owned, SizeIs(1));
  EXPECT_EQ(owned[0].run, (SliceRun{1, 3}));
  EXPECT_THAT(owned[0].slots, ElementsAre(2, 1, 0));
}

TEST(SliceOwnersTest, EqualsTakeTurnsFromExpertToExpert) {
  std::vector<Member> members(4, Holder(MemberState::kServing, {}));
  for (Member& member : members) member.holdings = nullptr;  // everything
  const Placement placement = Make(std::move(members));
  std::vector<int> first(4);
  for (int expert = 0; expert < 400; ++expert) {
    const auto owned = OwnersOf(placement, 0, {1, expert}, {0, 4});
    ++first[owned.at(0).slots.at(0)];
  }
  EXPECT_EQ(first[0], 0);
  for (int slot = 1; slot < 4; ++slot) EXPECT_GT(first[slot], 100) << slot;
}

v1::FindOwnersRequest Ask(int n, SliceRun run) {
  v1::FindOwnersRequest request;
  request.set_node_id("id-" + std::to_string(n));
  request.set_incarnation(1);
  request.set_layer(kKey.layer);
  request.set_expert(kKey.expert);
  request.set_first_slice(run.first);
  request.set_num_slices(run.count);
  return request;
}

TEST_F(RegistryTest, TellsAMemberWhoHasSlices) {
  options_.supplies_slices = true;
  Restart();
  registry_->AddNamed(kOwnMemberName, testing::FakeChannel());
  Serve(JoinOf(1));
  v1::JoinRequest empty = JoinOf(2);
  SliceSet(1, 2, 3, 4).ToProto(empty.mutable_holdings());
  Serve(empty);
  const auto reply = registry_->FindOwners(Ask(2, {1, 2}));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->epoch(), placement()->epoch());
  ASSERT_EQ(reply->runs_size(), 1);
  EXPECT_EQ(reply->runs(0).first_slice(), 1u);
  EXPECT_EQ(reply->runs(0).num_slices(), 2u);
  EXPECT_THAT(reply->runs(0).owners(),
              UnorderedElementsAre("127.0.0.1:7001", kCoordinatorOwner));
}

TEST_F(RegistryTest, ACoordinatorThatSuppliesIsTheLastOwner) {
  options_.supplies_slices = true;
  Restart();
  v1::JoinRequest empty = JoinOf(2);
  SliceSet(1, 2, 3, 4).ToProto(empty.mutable_holdings());
  Serve(empty);
  EXPECT_THAT(registry_->FindOwners(Ask(2, {0, 4}))->runs(0).owners(),
              ElementsAre(kCoordinatorOwner));
  Serve(JoinOf(1));
  EXPECT_THAT(registry_->FindOwners(Ask(2, {0, 4}))->runs(0).owners(),
              ElementsAre("127.0.0.1:7001", kCoordinatorOwner));
}

TEST_F(RegistryTest, RefusesToTellOwnersToStrangersAndOfOtherModels) {
  Serve(JoinOf(1));
  const auto code = [this](const v1::FindOwnersRequest& request) {
    return registry_->FindOwners(request).status().code();
  };
  EXPECT_EQ(code(Ask(1, {0, 4})), absl::StatusCode::kOk);
  EXPECT_EQ(code(Ask(3, {0, 4})), absl::StatusCode::kNotFound);
  for (const SliceRun bad :
       {SliceRun{0, 0}, SliceRun{0, 5}, SliceRun{4, 1}, SliceRun{-1, 2}}) {
    EXPECT_EQ(code(Ask(1, bad)), absl::StatusCode::kInvalidArgument);
  }
  v1::FindOwnersRequest request = Ask(1, {0, 1});
  request.set_incarnation(2);
  EXPECT_EQ(code(request), absl::StatusCode::kNotFound);
  request = Ask(1, {0, 1});
  request.set_layer(0);
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request.set_layer(3);
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = Ask(1, {0, 1});
  request.set_expert(3);
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
  request = Ask(1, {0, 1});
  request.clear_node_id();
  EXPECT_EQ(code(request), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deltafin
