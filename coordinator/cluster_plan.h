// coordinator/cluster_plan.h
//
// Predicts tokens a second of a cluster from what its machines can do. Pure
// arithmetic over assumptions that are named; nothing is measured here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "coordinator/engine/expert_prediction.h"
#include "spine_node/options.h"

namespace deltafin {

// One token through one model.
struct TokenDemand {
  std::string model;  // for messages
  RouteModel routes;
  int num_slices = 0;
  int64_t spine_bytes = 0;  // of weights, used for every token
  // Of them the rows of each layer, which may be read from disk (residency.h).
  std::vector<uint64_t> spine_layer_bytes;
  int64_t sequence_bytes = 0;  // state of one sequence
  int64_t message_bytes = 0;   // to a node and back, a layer
  int64_t expert_bytes = 0;    // all of them
};

TokenDemand DemandOf(const ModelSpec& spec, SpinePrecision precision,
                     int64_t context_tokens);

struct MachinePlan {
  std::string name;
  double ram_bytes = 0;
  double disk_bytes = 0;    // free for experts
  double disk_rate = 0;     // bytes a second
  double memory_rate = 0;   // bytes a second
  double link_rate = 0;     // bytes a second, to the coordinator
  double link_latency = 0;  // seconds, one way
};

struct ClusterPlan {
  MachinePlan coordinator;
  std::vector<MachinePlan> nodes;
  int copies = 1;
};

struct NodePrediction {
  std::string name;
  double share = 0;     // of every expert
  double resident = 0;  // of its share, in memory
  double seconds = 0;   // of a layer
  double slowest = 0;   // how often the layer waits for it
  std::string limit;    // "disk", "memory", "link", "idle"
};

struct PlanPrediction {
  double seconds_per_token = 0;
  double spine_seconds = 0;   // of them
  double expert_seconds = 0;  // of them
  // What reading spine layers takes beyond the two above, beside which it goes
  // on.
  double stream_seconds = 0;
  int streamed_layers = 0;
  double streamed_bytes = 0;  // a token
  double balance = 0;
  std::vector<NodePrediction> nodes;  // the coordinator's own first, if any
  std::string limit;                  // the resource that most of it waits for
};

// Errors: RESOURCE_EXHAUSTED naming what does not fit: the spine's working
// memory, also with layers read from disk, or the experts on all disks
// together.
absl::StatusOr<PlanPrediction> PredictPlan(const TokenDemand& demand,
                                           const ClusterPlan& plan);

// The same cluster with one thing bought.
struct Purchase {
  std::string what;
  double tokens_per_second = 0;
};
std::vector<Purchase> PredictPurchases(const TokenDemand& demand,
                                       const ClusterPlan& plan);

// What the numbers rest on, a line each.
std::vector<std::string> PlanAssumptions(const TokenDemand& demand);

}  // namespace deltafin
