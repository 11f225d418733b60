// coordinator/engine/node_work.h
//
// What a node did for one coordinator. Plain data.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "coordinator/cluster/cluster_view.h"
#include "proto/expert.pb.h"

namespace deltafin {

// What a node's counted replies said, summed.
struct NodeWork {
  int64_t replies = 0;
  int64_t slices_computed = 0;  // (token, expert, slice) triples
  int64_t bytes_read = 0;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t replies_dropped = 0;  // late or duplicate
  int64_t parts_lost = 0;       // given to others
  int64_t parts_hedged = 0;     // late, so that another was asked as well
  int64_t slices_hedged = 0;    // (token, expert, slice) triples of those
  int64_t hedges_won = 0;       // answered sooner than by who was late
  double queue_seconds = 0;
  double read_seconds = 0;
  double compute_seconds = 0;
  // Of its last counted reply, and when it came, since the layer began.
  PartTiming last;
  absl::Duration answered_after;
  // When a part of it was given to others last; zero: never.
  absl::Duration given_up_after;
  // When another was asked as well last; zero: never.
  absl::Duration hedged_after;
};

// Adds what one reply says.
void AddReply(const v1::LayerReply& reply, NodeWork* work);
void AddWork(const NodeWork& from, NodeWork* to);

}  // namespace deltafin
