// coordinator/cluster/copy_orders.h
//
// Which slices a member should fetch next, from whom, and which it need not
// keep. What a member lacks follows from what it is meant to have and what it
// holds, so that nothing has to be remembered and a restart loses nothing.
// Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/cluster/meant_slices.h"
#include "coordinator/cluster/model_extent.h"
#include "coordinator/cluster/placement.h"

namespace deltafin {

// A member as one that copies and is copied from.
struct CopyPeer {
  std::string address;      // where its slices can be read; empty: nowhere
  bool has_source = false;  // gets released bytes itself
  uint64_t queue_depth = 0;
  std::optional<int64_t> room;  // slices that still fit; absent: not known
};

// What orders follow from, as long as the placement is the same. Immutable;
// thread-safe.
struct CopyPlan {
  // `placement` says who is there and holds what; `cut`, who is meant to have
  // what: its members are the same, but some that are away for a short time may
  // serve there, so that nothing is copied for their sake. Where `before` has
  // the same cut its slices are taken over; otherwise all experts are cut:
  // milliseconds for a large model.
  static std::shared_ptr<const CopyPlan> Make(
      std::shared_ptr<const Placement> placement, const Placement& cut,
      const ModelExtent& extent, const CopyPlan* before);

  // That the member is meant to have and lacks. Zero for who holds everything.
  int64_t missing(int slot) const;

  std::shared_ptr<const Placement> placement;
  std::shared_ptr<const MeantSlices> meant;
  SliceSet held;   // by members in service or with a share
  SliceSet stays;  // those of them that a serving member holds
  SliceSet spare;  // kept elsewhere: as many serving members as there are
                   // copies wanted hold it and are meant to
};

// How far a member has been told; its owner keeps it from call to call, so that
// each call tells of the next slices, from the beginning again behind the last.
// Pair numbers.
struct CopyCursor {
  int64_t bare = 0;
  int64_t leaving = 0;
  int64_t homes = 0;
  int64_t further = 0;
  int64_t surplus = 0;
};

struct CopyRequest {
  int slot = 0;  // of the member that asks
  int max_orders = 1;
  // The coordinator gives slices to those that ask it: it is the last owner, as
  // "coordinator".
  bool coordinator_supplies = false;
  // Advances now and then: who could not get what nobody has, for as long, lets
  // another try.
  uint64_t turn = 0;
};

struct OrderedRun {
  ExpertRun run;
  std::vector<std::string> owners;  // the least busy first
};

struct CopyAnswer {
  std::vector<OrderedRun> orders;
  std::vector<ExpertRun> surplus;
  int64_t missing = 0;
};

// Orders of a member that serves and has a share; others have none. First come
// slices that nobody holds: those of one expert are all ordered from the same
// member, of those with a source and room, so that the source is asked once;
// the others copy from there. Then the member's own share, what only draining
// members hold first; then further copies: these only once the whole model is
// held or nobody could get what is missing, and as far as there is room.
// `peers` by slot.
CopyAnswer NextCopies(const CopyPlan& plan, std::span<const CopyPeer> peers,
                      const CopyRequest& request, CopyCursor* cursor);

}  // namespace deltafin
