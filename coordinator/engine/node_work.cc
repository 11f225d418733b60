#include "coordinator/engine/node_work.h"

namespace deltafin {

void AddReply(const v1::LayerReply& reply, NodeWork* work) {
  constexpr double kMicrosecond = 1e-6;
  ++work->replies;
  work->slices_computed += static_cast<int64_t>(reply.slices_computed());
  work->bytes_read += static_cast<int64_t>(reply.bytes_read());
  work->cache_hits += reply.cache_hits();
  work->cache_misses += reply.cache_misses();
  work->queue_seconds += kMicrosecond * reply.timings().queue_us();
  work->read_seconds += kMicrosecond * reply.timings().read_us();
  work->compute_seconds += kMicrosecond * reply.timings().compute_us();
}

void AddWork(const NodeWork& from, NodeWork* to) {
  to->replies += from.replies;
  to->slices_computed += from.slices_computed;
  to->bytes_read += from.bytes_read;
  to->cache_hits += from.cache_hits;
  to->cache_misses += from.cache_misses;
  to->replies_dropped += from.replies_dropped;
  to->parts_lost += from.parts_lost;
  to->parts_hedged += from.parts_hedged;
  to->slices_hedged += from.slices_hedged;
  to->hedges_won += from.hedges_won;
  to->queue_seconds += from.queue_seconds;
  to->read_seconds += from.read_seconds;
  to->compute_seconds += from.compute_seconds;
}

}  // namespace deltafin
