// coordinator/run_statistics.h
//
// What a coordinator can tell about its work: how it is set up and where the
// time went. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/engine/scheduler.h"
#include "proto/expert.pb.h"

namespace deltafin {

struct NodeReport {
  std::string address;          // "in-process" for the own node
  v1::HandshakeReply identity;  // as it introduced itself
  v1::NodeCounters counters;
};

// How flags and machine took effect.
struct RunSettings {
  std::string spine;   // "cpu-bf16", ...
  std::string kernel;  // of the spine; each node names its own
  int num_threads = 0;
  int prefill_chunk = 0;
  int64_t context_tokens = 0;
  std::string placement;  // "even", "random:SEED"
};

struct RunStatistics {
  RunSettings settings;
  SchedulerStats scheduler;
  std::vector<NodeReport> nodes;
};

// Counters of `after` less those of `before`, node by node; gauges
// (resident_bytes, queue_depth) as in `after`. A node that is not in `before`,
// or was started again since, counts from its start.
std::vector<NodeReport> CountersSince(const std::vector<NodeReport>& before,
                                      std::vector<NodeReport> after);

}  // namespace deltafin
