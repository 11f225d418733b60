// coordinator/frontend/cluster_report.h
//
// What people see of a cluster, as JSON: the answers of /api/cluster
// (docs/http_api.md, "Web page"). Thread-compatible: one thread asks.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "coordinator/cluster/node_registry.h"
#include "coordinator/engine/expert_dispatcher.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/speed_limit.h"

namespace deltafin {

// What does not change while a coordinator runs.
struct ClusterTitle {
  std::string model;
  std::string spine;
  std::string kernel;
  std::string version;
};

// Totals at a moment, to tell rates from.
struct ClusterSample {
  absl::Duration at;
  SchedulerStats scheduler;
  absl::flat_hash_map<std::string, NodeWork> work;  // by node id
};

class ClusterReport {
 public:
  // Rates are those of so long.
  static constexpr absl::Duration kWindow = absl::Seconds(6);

  // All must outlive this.
  ClusterReport(ClusterTitle title, const NodeRegistry& registry,
                const Scheduler& scheduler, const ExpertDispatcher& dispatcher,
                const Clock& clock);

  // The cluster now. Rates are those since earlier questions, back to kWindow
  // or a little more; null where there was none, or nothing ran.
  std::string Snapshot();
  // How often the experts were chosen lately: for each a byte, 255 times the
  // root of its share of the most chosen one's, in base64.
  std::string Heat() const;

 private:
  ClusterSample TakeSample() const;
  // The sample that rates are counted from; keeps `now` for later.
  ClusterSample Before(ClusterSample now);

  const ClusterTitle title_;
  const NodeRegistry& registry_;
  const Scheduler& scheduler_;
  const ExpertDispatcher& dispatcher_;
  const Clock& clock_;
  std::deque<ClusterSample> samples_;
};

}  // namespace deltafin
