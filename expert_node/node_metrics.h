// expert_node/node_metrics.h
//
// What a node tells a monitoring system; docs/operations.md lists the names.
#pragma once

#include "common/net/metrics.h"
#include "expert_node/expert_node.h"
#include "expert_node/share_filler.h"

namespace deltafin {

// Thread-safe; blocks on no disk and no network.
void AddNodeMetrics(const ExpertNode& node, MetricsPage& page);
// What the node holds and copies.
void AddShareMetrics(const ShareReport& share, MetricsPage& page);

}  // namespace deltafin
