// bench/scaling_nodes.h
//
// Nodes of cluster_scaling and rebalance_cost: processes that serve real-size
// experts at the rate of a disk.
#pragma once

#include <memory>
#include <vector>

#include "bench/child.h"
#include "bench/repeated_store.h"
#include "coordinator/cluster/placement.h"
#include "coordinator/engine/expert_prediction.h"

namespace deltafin::bench {

// Of FullExperts().
RouteModel Routes();
// In the place of a manifest's SHA-256.
inline constexpr char kScalingDigest[] =
    "0000000000000000000000000000000000000000000000000000000000000000";

// Serves every expert from memory, at most `read_rate` bytes a second, and
// keeps none. REQUIRES: this process has no threads yet.
std::unique_ptr<Child> ScalingNode(int num_threads, double read_rate);

// Members hold their runs of the given number of copies, and nothing else.
std::vector<Member> ScalingMembers(
    const std::vector<std::unique_ptr<Child>>& nodes,
    const std::vector<double>& weights, const PlacementOptions& placement);

}  // namespace deltafin::bench
