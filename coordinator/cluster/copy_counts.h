// coordinator/cluster/copy_counts.h
//
// How many members in service hold each (expert, slice) pair. Pure.
#pragma once

#include <cstdint>

#include "coordinator/cluster/model_extent.h"
#include "coordinator/cluster/placement.h"

namespace deltafin {

struct CopyCounts {
  int least = 0;       // copies of the pair with the fewest
  int64_t none = 0;    // pairs that nobody holds
  int64_t scarce = 0;  // pairs with fewer copies than wanted
};

// In service are the serving and the draining. REQUIRES: wanted >= 1. Costs
// about a nanosecond for 64 pairs and member.
CopyCounts CountCopies(const Placement& placement, const ModelExtent& extent,
                       int wanted);

// Serves or drains: asked for work and for copies.
bool IsInService(const Member& member);

}  // namespace deltafin
