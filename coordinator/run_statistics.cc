#include "coordinator/run_statistics.h"

#include <utility>

namespace deltafin {
namespace {

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
  for (size_t i = 0; i < after.size() && i < before.size(); ++i) {
    Subtract(before[i].counters, after[i].counters);
  }
  return after;
}

}  // namespace deltafin
