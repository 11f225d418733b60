#include "coordinator/run_statistics.h"

#include <utility>

namespace deltafin {
namespace {

uint64_t Since(uint64_t before, uint64_t after) {
  return after < before ? after : after - before;
}

void Subtract(const v1::NodeCounters& b, v1::NodeCounters& counters) {
  const auto& c = counters;
  counters.set_layer_requests(Since(b.layer_requests(), c.layer_requests()));
  counters.set_slices_computed(Since(b.slices_computed(), c.slices_computed()));
  counters.set_bytes_read(Since(b.bytes_read(), c.bytes_read()));
  counters.set_cache_hits(Since(b.cache_hits(), c.cache_hits()));
  counters.set_cache_misses(Since(b.cache_misses(), c.cache_misses()));
  counters.set_evictions(Since(b.evictions(), c.evictions()));
  counters.set_refused_requests(
      Since(b.refused_requests(), c.refused_requests()));
  counters.set_cancelled_requests(
      Since(b.cancelled_requests(), c.cancelled_requests()));
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
