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

// A counter that went back, as those of a liar may, counts from 0.
uint64_t Since(uint64_t before, uint64_t now) {
  return now >= before ? now - before : now;
}

void Subtract(const v1::NodeCounters& before, v1::NodeCounters& counters) {
  const auto& c = counters;
  counters.set_layer_requests(
      Since(before.layer_requests(), c.layer_requests()));
  counters.set_slices_computed(
      Since(before.slices_computed(), c.slices_computed()));
  counters.set_bytes_read(Since(before.bytes_read(), c.bytes_read()));
  counters.set_cache_hits(Since(before.cache_hits(), c.cache_hits()));
  counters.set_cache_misses(Since(before.cache_misses(), c.cache_misses()));
  counters.set_expected_used(Since(before.expected_used(), c.expected_used()));
  counters.set_expected_wasted(
      Since(before.expected_wasted(), c.expected_wasted()));
  counters.set_evictions(Since(before.evictions(), c.evictions()));
  counters.set_refused_requests(
      Since(before.refused_requests(), c.refused_requests()));
  counters.set_cancelled_requests(
      Since(before.cancelled_requests(), c.cancelled_requests()));
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

void AddDispatched(const DispatcherStats& dispatched,
                   std::vector<NodeReport>* reports) {
  for (const NodeStats& node : dispatched.nodes) {
    if (node.streams_opened == 0) continue;  // had no part in the work
    auto report = std::find_if(reports->begin(), reports->end(),
                               [&node](const NodeReport& other) {
                                 return other.address == node.name;
                               });
    if (report == reports->end()) {
      report = reports->emplace(report);
      report->address = node.name;
      report->identity = node.info;
      report->reachable = false;
    }
    report->work = node.work;
    report->streams_opened = node.streams_opened;
  }
}

}  // namespace deltafin
