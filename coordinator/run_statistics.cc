#include "coordinator/run_statistics.h"

#include <algorithm>

namespace deltafin {
namespace {

// It counted on from there.
bool IsLater(const NodeReport& before, const NodeReport& after) {
  return before.address == after.address &&
         before.identity.node_id() == after.identity.node_id() &&
         before.counters.layer_requests() <= after.counters.layer_requests() &&
         before.counters.slices_computed() <= after.counters.slices_computed();
}

void Subtract(const v1::NodeCounters& before, v1::NodeCounters& counters) {
  const auto& c = counters;
  counters.set_layer_requests(c.layer_requests() - before.layer_requests());
  counters.set_slices_computed(c.slices_computed() - before.slices_computed());
  counters.set_bytes_read(c.bytes_read() - before.bytes_read());
  counters.set_cache_hits(c.cache_hits() - before.cache_hits());
  counters.set_cache_misses(c.cache_misses() - before.cache_misses());
  counters.set_evictions(c.evictions() - before.evictions());
  counters.set_refused_requests(c.refused_requests() -
                                before.refused_requests());
  counters.set_cancelled_requests(c.cancelled_requests() -
                                  before.cancelled_requests());
}

}  // namespace

std::vector<NodeReport> CountersSince(const std::vector<NodeReport>& before,
                                      std::vector<NodeReport> after) {
  for (NodeReport& node : after) {
    const auto same = std::find_if(
        before.begin(), before.end(),
        [&node](const NodeReport& other) { return IsLater(other, node); });
    if (same != before.end()) Subtract(same->counters, node.counters);
  }
  return after;
}

}  // namespace deltafin
