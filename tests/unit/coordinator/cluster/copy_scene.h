// tests/unit/coordinator/cluster/copy_scene.h
//
// Members that serve with equal weight and hold nothing yet, and what is needed
// to ask for their orders.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/cluster/copy_orders.h"

namespace deltafin::testing {

// 2 layers of 16 experts of 12 slices: 384 pairs.
inline constexpr ModelExtent kExtent = {1, 2, 16, 12, 2, 1000};

struct Scene {
  explicit Scene(int num_members, int copies = 1,
                 const ModelExtent& model = kExtent)
      : extent(model), peers(num_members) {
    options.num_slices = extent.num_slices;
    options.copies = copies;
    for (int i = 0; i < num_members; ++i) {
      Member member;
      member.id = std::string(1, static_cast<char>('a' + i));
      member.state = MemberState::kServing;
      member.weight = 1;
      member.fetches = FetchReach::kMembers;
      member.holdings = std::make_shared<const SliceSet>(extent.NoSlices());
      members.push_back(std::move(member));
      peers[i].address = members.back().id;
    }
  }

  void Hold(int slot, const SliceSet& set) {
    members[slot].holdings = std::make_shared<const SliceSet>(set);
  }
  void HoldEverything(int slot) { members[slot].holdings = nullptr; }
  // What the placement means the member to have.
  const SliceSet& Meant(int slot) const { return plan->meant->all(slot); }

  void Plan() {
    auto placement = std::make_shared<const Placement>(1, options, members);
    plan = CopyPlan::Make(placement, *placement, extent, plan.get());
  }
  CopyAnswer Ask(int slot, int max_orders = 256) {
    request.slot = slot;
    request.max_orders = max_orders;
    return NextCopies(*plan, peers, request, &cursors[slot]);
  }
  // Does what the orders say, as a node would. Returns slices copied from
  // sources.
  int64_t Obey(int slot, int max_orders = 256) {
    SliceSet holdings = *members[slot].holdings;
    int64_t from_sources = 0;
    for (const OrderedRun& order : Ask(slot, max_orders).orders) {
      holdings.Add(order.run.key, order.run.slices);
      if (order.owners.empty()) from_sources += order.run.slices.count;
    }
    Hold(slot, holdings);
    return from_sources;
  }

  ModelExtent extent;
  PlacementOptions options;
  std::vector<Member> members;
  std::vector<CopyPeer> peers;
  CopyRequest request;
  std::map<int, CopyCursor> cursors;
  std::shared_ptr<const CopyPlan> plan;
};

inline SliceSet SlicesOf(const std::vector<OrderedRun>& orders) {
  SliceSet set = kExtent.NoSlices();
  for (const OrderedRun& order : orders) {
    set.Add(order.run.key, order.run.slices);
  }
  return set;
}

inline bool Same(const SliceSet& a, const SliceSet& b) {
  return a.CountNotIn(b) == 0 && b.CountNotIn(a) == 0;
}

}  // namespace deltafin::testing
