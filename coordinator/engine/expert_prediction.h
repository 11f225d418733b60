// coordinator/engine/expert_prediction.h
//
// How long the routed experts of a token take on a cluster, from the speeds of
// its machines: layers are drawn, assigned as the dispatcher assigns them, and
// the slowest node of each counts. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/cluster/placement.h"

namespace deltafin {

struct NodeSpeed {
  double latency = 0;      // seconds a layer, whatever the work: round trip,
                           // messages, queue
  double read_rate = 0;    // bytes a second from its disk
  double kernel_rate = 0;  // bytes a second through the kernel, one token
  double resident = 0;     // part of its slices in memory, 0 to 1
};

// Experts of one token in one layer, all equally likely.
struct RouteModel {
  int first_layer = 1;  // with routed experts
  int num_layers = 1;   // with routed experts
  int num_experts = 1;
  int top_k = 1;
  int64_t slice_bytes = 1;
};

struct ExpertPrediction {
  double seconds_per_layer = 0;  // of the slowest node, on average
  // Slices of the mean node over those of the busiest, where the cut is even.
  double balance = 0;
  // Of each node, on average, by slot.
  std::vector<double> share;    // of all slices
  std::vector<double> seconds;  // of a layer
  std::vector<double> slowest;  // how often it is the slowest, 0 to 1
};

// Draws `num_layers` layers from `seed`. REQUIRES: `speeds` by slot of the
// placement, all rates > 0; top_k <= num_experts.
ExpertPrediction PredictExperts(const Placement& placement,
                                const RouteModel& routes,
                                std::span<const NodeSpeed> speeds,
                                int num_layers, uint64_t seed);

// `top_k` different experts, ascending; the next of the sequence of `state`.
void DrawExperts(const RouteModel& routes, uint64_t* state,
                 std::vector<int32_t>* experts);

}  // namespace deltafin
