#include "coordinator/cluster/slice_owners.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

namespace deltafin {
namespace {

int RankOf(MemberState state) {
  switch (state) {
    case MemberState::kServing:
      return 0;
    case MemberState::kDraining:
      return 1;
    default:
      return 2;
  }
}

// Differs from expert to expert.
uint64_t DrawOf(ExpertKey key, int slot) {
  uint64_t x = (static_cast<uint64_t>(key.layer) << 40) ^
               (static_cast<uint64_t>(key.expert) << 16) ^
               static_cast<uint64_t>(slot);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<OwnedSlices> OwnersOf(const Placement& placement, int asking,
                                  ExpertKey key, SliceRun run) {
  std::vector<OwnedSlices> owned;
  for (int i = 0; i < run.count; ++i) {
    const SliceRun one = {run.first + i, 1};
    std::vector<int> slots;
    for (int slot = 0; slot < placement.num_slots(); ++slot) {
      if (slot != asking && placement.Holds(slot, key, one)) {
        slots.push_back(slot);
      }
    }
    if (!owned.empty() && owned.back().slots == slots) {
      ++owned.back().run.count;
    } else {
      owned.push_back({one, std::move(slots)});
    }
  }
  for (OwnedSlices& part : owned) {
    std::ranges::sort(part.slots, {}, [&](int slot) {
      return std::tuple(RankOf(placement.member(slot).state),
                        DrawOf(key, slot));
    });
  }
  return owned;
}

std::string OwnerName(const Member& member) {
  return member.name == kOwnMemberName ? kCoordinatorOwner : member.name;
}

void NameSupplier(v1::CopyOrder* order) {
  if (std::ranges::find(order->owners(), kCoordinatorOwner) ==
      order->owners().end()) {
    order->add_owners(kCoordinatorOwner);
  }
}

}  // namespace deltafin
