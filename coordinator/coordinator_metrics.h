// coordinator/coordinator_metrics.h
//
// What a coordinator tells a monitoring system; docs/operations.md lists the
// names. Members are labelled as long as they are listed in the health table,
// so that there are never more than the cluster may have.
#pragma once

#include "common/net/metrics.h"
#include "coordinator/coordinator.h"
#include "coordinator/slice_supply.h"

namespace deltafin {

// Thread-safe; asks no node. REQUIRES: the coordinator's Init returned OK and
// Shutdown was not called.
void AddCoordinatorMetrics(const Coordinator& coordinator, MetricsPage& page);

// What a coordinator that accepts nodes gave them of its folder.
void AddSupplyMetrics(const SliceSupply& supply, MetricsPage& page);

// The parts of it. Pure.
void AddEngineMetrics(const SchedulerStats& stats, MetricsPage& page);
void AddClusterMetrics(const v1::ClusterHealth& health, MetricsPage& page);
// `work` of nodes that `health` does not list is left out.
void AddMemberMetrics(const v1::ClusterHealth& health,
                      const DispatcherStats& work, MetricsPage& page);

}  // namespace deltafin
