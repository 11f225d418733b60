// coordinator/node_counting.h
//
// What the nodes of a cluster did since a moment, as they tell it themselves.
// Thread-compatible.
#pragma once

#include <vector>

#include "coordinator/cluster/node_registry.h"
#include "coordinator/run_statistics.h"

namespace deltafin {

class NodeCounting {
 public:
  // Takes the counters as they are now for the start. `registry` must outlive
  // this. Blocks as Reports does.
  explicit NodeCounting(const NodeRegistry& registry);

  // One report for each member in service, by slot: since the start, or since
  // the node started where it was not there then. A node that does not answer
  // within five seconds is left out, with a warning. Blocks on the network.
  std::vector<NodeReport> Reports() const;

 private:
  const NodeRegistry& registry_;
  const std::vector<NodeReport> before_;
};

}  // namespace deltafin
