// common/net/keepalive.h
//
// How soon either end of a connection notices that the other is gone: pings
// while nothing else is heard, and TCP_USER_TIMEOUT (which gRPC sets to the
// timeout) where sent bytes are not acknowledged.
#pragma once

#include "absl/time/time.h"

namespace deltafin {

struct Keepalive {
  absl::Duration time;     // without a word until a ping
  absl::Duration timeout;  // of its answer
};

inline constexpr absl::Duration kDefaultKeepaliveBound = absl::Seconds(5);
inline constexpr absl::Duration kLeastKeepaliveBound = absl::Seconds(2);
inline constexpr absl::Duration kMostKeepaliveBound = absl::Minutes(10);

// Who is gone is noticed within `bound`, a tenth of it left for the machines.
// REQUIRES: it is between least and most.
Keepalive KeepaliveWithin(absl::Duration bound);

// A client that pings more often, without sending anything, is cut off. Less
// than any time above, as pings may come late and then close together.
inline constexpr int kLeastPingIntervalMs = 400;

// Lets gRPC read answers to pings where no thread waits for events, as between
// requests and while the spine computes: every 200 ms instead of every 5 s,
// which is longer than the timeout. Sets an environment variable that gRPC
// reads once: call it first in main, before threads and gRPC.
void PollConnectionsInBackground();

}  // namespace deltafin
