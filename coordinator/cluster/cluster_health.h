// coordinator/cluster/cluster_health.h
//
// Can the cluster do its work, and if not, why? Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coordinator/cluster/placement.h"
#include "proto/admin.pb.h"

namespace deltafin {

// The routed experts of a model.
struct ModelExtent {
  int first_layer = 0;  // with routed experts
  int num_layers = 0;   // with routed experts
  int num_experts = 0;  // in a layer
  int num_slices = 0;   // of an expert
  int top_k = 1;        // experts of a token in a layer
};

// Members in service that hold the (expert, slice) pair that the fewest hold.
// In service are the serving and the draining.
int LeastCopies(const Placement& placement, const ModelExtent& extent);

struct MemberSummary {
  std::string_view name;
  MemberState state = MemberState::kGone;
};

struct Judgement {
  v1::ClusterHealth::Verdict verdict = v1::ClusterHealth::HEALTHY;
  std::string reason;  // a sentence
};

// DOWN without a copy of everything in service; DEGRADED with fewer copies
// than wanted or a member that is suspect or gone.
Judgement JudgeCluster(std::span<const MemberSummary> members,
                       int copies_wanted, int copies_least);

}  // namespace deltafin
