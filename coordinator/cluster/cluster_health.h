// coordinator/cluster/cluster_health.h
//
// Can the cluster do its work, and if not, why? Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "coordinator/cluster/copy_counts.h"
#include "coordinator/cluster/placement.h"
#include "proto/admin.pb.h"

namespace deltafin {

struct MemberSummary {
  std::string_view name;
  MemberState state = MemberState::kGone;
};

struct Judgement {
  v1::ClusterHealth::Verdict verdict = v1::ClusterHealth::HEALTHY;
  std::string reason;  // a sentence
};

struct CopyState {
  int wanted = 1;  // copies of everything
  CopyCounts counts;
  int64_t num_pairs = 0;  // of the model
  // A member in service gets what no member holds.
  bool can_be_got = false;
};

// DOWN where a slice is on no node in service and nobody could get it; DEGRADED
// with fewer copies than wanted or a member that is suspect or gone.
Judgement JudgeCluster(std::span<const MemberSummary> members,
                       const CopyState& copies);

}  // namespace deltafin
