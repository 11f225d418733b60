#include "coordinator/cluster/copy_orders.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "coordinator/cluster/copy_counts.h"
#include "coordinator/cluster/lane_counter.h"

namespace deltafin {
namespace {

// What an owner is called that is the coordinator (proto/cluster.proto).
constexpr char kCoordinator[] = "coordinator";
// Owners of an order: enough to try.
constexpr size_t kMaxOwners = 4;
// Runs looked at for each that may be ordered, so that a call ends soon even
// where most have no owner.
constexpr int kLooksPerOrder = 2;

// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
// (2014), its output function.
uint64_t Mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

uint64_t Hash(ExpertKey key, uint64_t salt) {
  const uint64_t name = uint64_t(key.layer) << 32 | uint64_t(key.expert);
  return Mix(Mix(name + 0x9E3779B97F4A7C15) + salt);
}

// Held by the members in slots that count.
template <typename Counts>
SliceSet HeldBy(const Placement& placement, const ModelExtent& extent,
                Counts counts) {
  SliceSet held = extent.NoSlices();
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    const Member& member = placement.member(slot);
    if (!counts(slot)) continue;
    if (member.holdings == nullptr) return extent.NoSlices().Complement();
    held.UnionWith(*member.holdings);
  }
  return held;
}

bool IsServing(const Member& member) {
  return member.state == MemberState::kServing;
}

int NumSharing(const Placement& placement) {
  int count = 0;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    count += placement.has_share(slot) ? 1 : 0;
  }
  return count;
}

SliceSet KeptElsewhere(const Placement& placement, const Placement& cut,
                       const MeantSlices& meant, const ModelExtent& extent) {
  const int wanted =
      std::max(1, std::min(cut.options().copies, NumSharing(cut)));
  SliceSet kept = extent.NoSlices().Complement();
  const std::span<uint64_t> words = kept.mutable_words();
  LaneCounter counter;
  for (size_t w = 0; w < words.size(); ++w) {
    counter.Clear();
    for (int slot = 0; slot < placement.num_slots(); ++slot) {
      const Member& member = placement.member(slot);
      if (!IsServing(member)) continue;
      const uint64_t holds = member.holdings == nullptr
                                 ? ~uint64_t{0}
                                 : member.holdings->words()[w];
      counter.Add(holds & meant.all(slot).words()[w]);
    }
    words[w] &= ~counter.Below(wanted);
  }
  return kept;
}

// Members but `asker` that hold the slice and can be asked for it.
std::vector<int> HoldersOf(const Placement& placement,
                           std::span<const CopyPeer> peers, int asker,
                           ExpertKey key, int slice) {
  std::vector<int> holders;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    if (slot != asker && !peers[slot].address.empty() &&
        IsInService(placement.member(slot)) &&
        placement.Holds(slot, key, {slice, 1})) {
      holders.push_back(slot);
    }
  }
  return holders;
}

// Whoever holds the slice before holds this one as well; nobody, nobody. Both
// ascend.
bool GoOn(const std::vector<int>& here, const std::vector<int>& before) {
  if (before.empty()) return here.empty();
  return std::includes(here.begin(), here.end(), before.begin(), before.end());
}

// The run in pieces, ascending and covering it, each with the members in
// service that hold all of it. A piece ends where one of them does.
std::vector<OrderedRun> FindOwners(const Placement& placement,
                                   std::span<const CopyPeer> peers,
                                   const CopyRequest& request,
                                   const ExpertRun& run) {
  // Less is better.
  const auto rank = [&](int slot) {
    return std::tuple(std::bit_width(peers[slot].queue_depth),
                      Hash(run.key, uint64_t(slot) << 16 | request.slot));
  };
  std::vector<OrderedRun> pieces;
  const int end = run.slices.first + run.slices.count;
  int first = run.slices.first;
  while (first < end) {
    std::vector<int> holders =
        HoldersOf(placement, peers, request.slot, run.key, first);
    int next = first + 1;
    while (next < end &&
           GoOn(HoldersOf(placement, peers, request.slot, run.key, next),
                holders)) {
      ++next;
    }
    std::sort(holders.begin(), holders.end(),
              [&](int a, int b) { return rank(a) < rank(b); });
    OrderedRun piece{{run.key, {first, next - first}}, {}};
    for (const int slot : holders) {
      if (piece.owners.size() == kMaxOwners) break;
      piece.owners.push_back(peers[slot].address);
    }
    if (request.coordinator_supplies) piece.owners.push_back(kCoordinator);
    pieces.push_back(std::move(piece));
    first = next;
  }
  return pieces;
}

// Orders as they are collected.
class Collector {
 public:
  Collector(const CopyPlan& plan, std::span<const CopyPeer> peers,
            const CopyRequest& request)
      : plan_(plan),
        peers_(peers),
        request_(request),
        looks_left_(kLooksPerOrder * request.max_orders) {}

  bool full() const {
    return looks_left_ <= 0 ||
           answer_.orders.size() >= static_cast<size_t>(request_.max_orders);
  }
  CopyAnswer& answer() { return answer_; }

  // The runs of `wanted`, from *cursor once around, until there are enough or
  // `most` slices were taken.
  void Take(const SliceSet& wanted, int64_t most, int64_t* cursor) {
    const int64_t begin = *cursor;
    int64_t at = begin;
    ExpertRun run;
    for (const int64_t end : {wanted.num_pairs(), begin}) {
      while (most > 0 && !full() && at < end && wanted.NextRun(&at, &run)) {
        if (at - run.slices.count >= end) break;
        run.slices.count =
            static_cast<int>(std::min<int64_t>(run.slices.count, most));
        most -= run.slices.count;
        Add(run);
        *cursor = at;
      }
      if (full() || most <= 0) return;
      at = 0;
    }
  }

  // Slices that nobody holds, of the experts that this member is to get whole.
  void TakeWhole(const SliceSet& bare, std::span<const int> getters,
                 int64_t* cursor) {
    if (std::find(getters.begin(), getters.end(), request_.slot) ==
        getters.end()) {
      return;
    }
    const int64_t begin = *cursor;
    int64_t at = begin;
    ExpertRun run;
    for (const int64_t end : {bare.num_pairs(), begin}) {
      while (!full() && at < end && bare.NextRun(&at, &run)) {
        if (at - run.slices.count >= end) break;
        const uint64_t draw = Hash(run.key, 0) + request_.turn;
        if (getters[draw % getters.size()] != request_.slot) continue;
        answer_.orders.push_back({run, {}});
        *cursor = at;
      }
      if (full()) return;
      at = 0;
    }
  }

 private:
  void Add(const ExpertRun& run) {
    --looks_left_;
    for (OrderedRun& piece :
         FindOwners(*plan_.placement, peers_, request_, run)) {
      const bool has_source = peers_[request_.slot].has_source;
      if (full() || (piece.owners.empty() && !has_source)) continue;
      answer_.orders.push_back(std::move(piece));
    }
  }

  const CopyPlan& plan_;
  std::span<const CopyPeer> peers_;
  const CopyRequest& request_;
  int looks_left_;
  CopyAnswer answer_;
};

// Serving members with a source, and room for what they are to hand on.
std::vector<int> FindGetters(const CopyPlan& plan,
                             std::span<const CopyPeer> peers) {
  std::vector<int> getters;
  for (int slot = 0; slot < plan.placement->num_slots(); ++slot) {
    const CopyPeer& peer = peers[slot];
    if (!plan.placement->member(slot).is_wanted() || !peer.has_source) continue;
    if (peer.room && *peer.room <= plan.missing(slot)) continue;
    getters.push_back(slot);
  }
  return getters;
}

bool AnySource(const CopyPlan& plan, std::span<const CopyPeer> peers) {
  for (int slot = 0; slot < plan.placement->num_slots(); ++slot) {
    if (plan.placement->member(slot).is_wanted() && peers[slot].has_source) {
      return true;
    }
  }
  return false;
}

SliceSet Lacking(const SliceSet& meant, const SliceSet& holdings) {
  SliceSet lacking = meant;
  lacking.Subtract(holdings);
  return lacking;
}

void TakeOrders(const CopyPlan& plan, std::span<const CopyPeer> peers,
                const CopyRequest& request, Collector* into,
                CopyCursor* cursor) {
  const SliceSet& holdings = *plan.placement->member(request.slot).holdings;
  SliceSet homes = Lacking(plan.meant->homes(request.slot), holdings);
  const SliceSet bare = plan.held.Complement();
  const bool all_held = bare.size() == 0;
  const bool can_be_got =
      request.coordinator_supplies || AnySource(plan, peers);
  if (!all_held && can_be_got) {
    const std::vector<int> getters = FindGetters(plan, peers);
    if (request.coordinator_supplies || getters.empty()) {
      SliceSet own_bare = homes;
      own_bare.IntersectWith(bare);
      into->Take(own_bare, own_bare.size(), &cursor->bare);
    } else {
      into->TakeWhole(bare, getters, &cursor->bare);
    }
  }
  const int64_t num_homes = homes.size();
  homes.IntersectWith(plan.held);
  SliceSet leaving = Lacking(homes, plan.stays);
  into->Take(leaving, num_homes, &cursor->leaving);
  homes.IntersectWith(plan.stays);
  into->Take(homes, num_homes, &cursor->homes);
  if (!all_held && can_be_got) return;
  SliceSet further = Lacking(plan.meant->all(request.slot), holdings);
  further.Subtract(plan.meant->homes(request.slot));
  further.IntersectWith(plan.held);
  int64_t most = further.size();
  const std::optional<int64_t> room = peers[request.slot].room;
  if (room) most = std::min(most, *room - num_homes);
  into->Take(further, most, &cursor->further);
}

void TakeSurplus(const CopyPlan& plan, const CopyRequest& request,
                 CopyAnswer* answer, CopyCursor* cursor) {
  SliceSet surplus = *plan.placement->member(request.slot).holdings;
  surplus.Subtract(plan.meant->all(request.slot));
  surplus.IntersectWith(plan.spare);
  const auto most = static_cast<size_t>(request.max_orders);
  ExpertRun run;
  while (answer->surplus.size() < most &&
         surplus.NextRun(&cursor->surplus, &run)) {
    answer->surplus.push_back(run);
  }
  if (answer->surplus.size() < most) cursor->surplus = 0;
}

}  // namespace

std::shared_ptr<const CopyPlan> CopyPlan::Make(
    std::shared_ptr<const Placement> placement, const Placement& cut,
    const ModelExtent& extent, const CopyPlan* before) {
  const bool same = before != nullptr && before->meant->IsOf(cut);
  std::shared_ptr<const MeantSlices> meant =
      same ? before->meant : std::make_shared<const MeantSlices>(cut, extent);
  SliceSet held = HeldBy(*placement, extent, [&](int slot) {
    return cut.has_share(slot) || IsInService(placement->member(slot));
  });
  SliceSet stays = HeldBy(*placement, extent, [&](int slot) {
    return IsServing(placement->member(slot));
  });
  SliceSet spare = KeptElsewhere(*placement, cut, *meant, extent);
  return std::make_shared<const CopyPlan>(
      CopyPlan{std::move(placement), std::move(meant), std::move(held),
               std::move(stays), std::move(spare)});
}

int64_t CopyPlan::missing(int slot) const {
  const SliceSet* const holdings = placement->member(slot).holdings.get();
  return holdings == nullptr ? 0 : meant->all(slot).CountNotIn(*holdings);
}

CopyAnswer NextCopies(const CopyPlan& plan, std::span<const CopyPeer> peers,
                      const CopyRequest& request, CopyCursor* cursor) {
  Collector collector(plan, peers, request);
  const Member& member = plan.placement->member(request.slot);
  if (member.state == MemberState::kServing && member.holdings != nullptr) {
    collector.answer().missing = plan.missing(request.slot);
    TakeOrders(plan, peers, request, &collector, cursor);
    TakeSurplus(plan, request, &collector.answer(), cursor);
  }
  return std::move(collector.answer());
}

}  // namespace deltafin
