// coordinator/frontend/speed_limit.h
//
// What limits the speed of a cluster now, in one sentence. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/engine/scheduler.h"
#include "proto/admin.pb.h"

namespace deltafin {

// Parts of the time of steps; they make 1, or are all 0 where no step ran.
struct StepShares {
  double spine = 0;    // the coordinator's own work
  double disk = 0;     // reading experts
  double experts = 0;  // their arithmetic
  double network = 0;  // waiting that none of these explains

  bool any() const { return spine + disk + experts + network > 0; }
};

// Of the steps between two moments.
StepShares SharesBetween(const ForwardStats& before, const ForwardStats& after);

struct SpeedFacts {
  v1::ClusterHealth health;
  int64_t running = 0;  // requests
  int64_t waiting = 0;
  StepShares shares;         // of the last seconds
  std::string slowest_node;  // of the layers lately; empty: not known
};

struct SpeedLimit {
  // "down", "idle", "starting", "spine", "disk", "experts", "network"
  std::string place;
  std::string sentence;
};

SpeedLimit JudgeSpeed(const SpeedFacts& facts);

}  // namespace deltafin
