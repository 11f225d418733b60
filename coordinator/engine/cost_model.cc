#include "coordinator/engine/cost_model.h"

#include <algorithm>

namespace deltafin {
namespace {

constexpr int kRowsThatTellLatency = 4;
// Weight of the newest observation.
constexpr double kNewest = 0.2;
// One answer that took long for once counts as at most this many times what was
// usual, so that a hiccup does not leave a node out.
constexpr double kMostTimes = 2;
constexpr double kMostMore = 1e-3;
constexpr absl::Duration kFirstPause = absl::Seconds(5);
constexpr absl::Duration kLastPause = absl::Minutes(10);

void Average(double newest, bool first, double most, double* average) {
  *average =
      first ? newest : *average + kNewest * (std::min(newest, most) - *average);
}

}  // namespace

void CostModel::Observe(int slot, const PartTiming& timing, double units,
                        int num_rows, absl::Time now) {
  if (nodes_.size() <= static_cast<size_t>(slot)) nodes_.resize(slot + 1);
  Node& node = nodes_[slot];
  const double work = absl::ToDoubleSeconds(timing.read + timing.compute);
  const double elapsed = absl::ToDoubleSeconds(timing.elapsed);
  const double latency =
      std::max(0.0, elapsed - work - absl::ToDoubleSeconds(timing.queue));
  if (units > 0) {
    Average(work / units, !node.known, kMostTimes * node.cost.per_unit,
            &node.cost.per_unit);
  }
  if (num_rows <= kRowsThatTellLatency) {
    // A link that was bad for once is not held against a node for long.
    const bool anew = !node.knows_latency ||
                      (is_stale(slot, now) && latency < node.cost.latency);
    Average(latency, anew, kMostTimes * node.cost.latency + kMostMore,
            &node.cost.latency);
    node.knows_latency = true;
  }
  // In use, not only tried.
  if (now - node.tried > kFirstPause) node.pause = kFirstPause;
  node.observed = now;
  node.known = true;
}

void CostModel::Forget(int slot) {
  if (static_cast<size_t>(slot) < nodes_.size()) nodes_[slot] = Node();
}

bool CostModel::knows(int slot) const {
  return static_cast<size_t>(slot) < nodes_.size() && nodes_[slot].known;
}

bool CostModel::is_stale(int slot, absl::Time now) const {
  return !knows(slot) || now - nodes_[slot].observed > kFirstPause;
}

NodeCost CostModel::CostOf(int slot, absl::Time now,
                           absl::Duration round_trip) {
  const double told = absl::ToDoubleSeconds(round_trip);
  if (!knows(slot)) return {told, 0};
  Node& node = nodes_[slot];
  NodeCost cost = node.cost;
  if (!node.knows_latency) cost.latency = told;
  if (told > 0) {
    if (is_stale(slot, now)) cost.latency = std::min(cost.latency, told);
    return cost;
  }
  node.pause = std::max(node.pause, kFirstPause);
  if (now - std::max(node.observed, node.tried) > node.pause) {
    cost.latency = 0;
    node.tried = now;
    node.pause = std::min(2 * node.pause, kLastPause);
  }
  return cost;
}

absl::Duration CostModel::Expected(int slot, double units) const {
  const NodeCost& cost = nodes_[slot].cost;
  return absl::Seconds(cost.latency + units * cost.per_unit);
}

}  // namespace deltafin
