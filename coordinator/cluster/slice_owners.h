// coordinator/cluster/slice_owners.h
//
// Who can give slices to a node that lacks them, by the placement. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/expert_key.h"
#include "coordinator/cluster/placement.h"
#include "kernels/expert_weights.h"
#include "proto/cluster.pb.h"

namespace deltafin {

// Name of the member in the coordinator's process.
inline constexpr char kOwnMemberName[] = "in-process";
// What an owner is called that is the coordinator's own folder
// (proto/cluster.proto).
inline constexpr char kCoordinatorOwner[] = "coordinator";

struct OwnedSlices {
  SliceRun run;
  std::vector<int> slots;  // members that hold all of it, best first
};

// `run` in parts that the same members hold, ascending. Serving members come
// before draining and suspect ones; equals are ordered differently from expert
// to expert, so that not all ask one of them. `asking` is left out.
std::vector<OwnedSlices> OwnersOf(const Placement& placement, int asking,
                                  ExpertKey key, SliceRun run);

// How other nodes reach a member.
std::string OwnerName(const Member& member);

// Adds the coordinator's own folder as the last owner, unless it is one.
void NameSupplier(v1::CopyOrder* order);

}  // namespace deltafin
