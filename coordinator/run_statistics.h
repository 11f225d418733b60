// coordinator/run_statistics.h
//
// What a coordinator can tell about its work: how it is set up and where the
// time went. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/engine/expert_dispatcher.h"
#include "coordinator/engine/scheduler.h"
#include "proto/expert.pb.h"

namespace deltafin {

struct NodeReport {
  std::string address;          // "in-process" for the own node
  v1::HandshakeReply identity;  // as it introduced itself
  bool reachable = true;        // it told its counters; else they are zero
  v1::NodeCounters counters;
  NodeWork work;               // what its replies said, and how many came
  int64_t streams_opened = 0;  // one more than the times it was lost
};

// How flags and machine took effect.
struct RunSettings {
  std::string spine;   // "cpu-bf16", ...
  std::string kernel;  // of the spine; each node names its own
  int num_threads = 0;
  int prefill_chunk = 0;
  int64_t context_tokens = 0;
  std::string placement;  // "even", "random:SEED"
  // Of the spine, read from disk for every step.
  int streamed_layers = 0;
  int64_t streamed_bytes = 0;
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

// Adds what the dispatcher knows of the nodes, also of those without a report.
void AddDispatched(const DispatcherStats& dispatched,
                   std::vector<NodeReport>* reports);

}  // namespace deltafin
