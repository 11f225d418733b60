// expert_node/machine_capacity.h
//
// What this machine has, as a node tells its coordinator.
#pragma once

#include <string>

#include "proto/cluster.pb.h"

namespace deltafin {

// Disk of the file system that `folder` is on, memory, cores. What the system
// does not say is 0; rates are measured elsewhere.
v1::NodeCapacity CapacityOfMachine(const std::string& folder);

}  // namespace deltafin
