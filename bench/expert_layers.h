// bench/expert_layers.h
//
// A coordinator's part in routed experts: asks nodes for layers of one token
// and tells how long each took. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/cluster/static_cluster.h"
#include "coordinator/engine/expert_dispatcher.h"
#include "coordinator/engine/expert_prediction.h"

namespace deltafin::bench {

class ExpertLayers {
 public:
  // `members` serve FullExperts() by this digest; connects to all.
  ExpertLayers(const std::string& digest, const PlacementOptions& placement,
               std::vector<Member> members);

  const Placement& placement() const { return *placement_; }

  // Seconds of one layer, counted from the first with experts, of experts that
  // `routes` draws.
  double Time(const RouteModel& routes, int layer, uint64_t* seed);

  // Computed by each node, since the start.
  std::vector<int64_t> Slices() const;

 private:
  StaticCluster cluster_;
  const std::shared_ptr<const Placement> placement_ = cluster_.placement();
  std::unique_ptr<ExpertDispatcher> dispatcher_;
  std::vector<float> latent_;
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
  uint64_t step_ = 0;
};

}  // namespace deltafin::bench
