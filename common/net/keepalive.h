// common/net/keepalive.h
//
// How soon either end of a connection notices that the other is gone: pings
// while nothing else is heard, and TCP_USER_TIMEOUT (which gRPC sets to the
// timeout) where sent bytes are not acknowledged. Together within 4.5 s.
#pragma once

namespace deltafin {

inline constexpr int kKeepaliveTimeMs = 2000;
inline constexpr int kKeepaliveTimeoutMs = 2500;
// A client that pings more often, without sending anything, is cut off. Less
// than the time above, as pings may come late and then close together.
inline constexpr int kLeastPingIntervalMs = 500;

// Lets gRPC read answers to pings where no thread waits for events, as between
// requests and while the spine computes: every 200 ms instead of every 5 s,
// which is longer than the timeout. Sets an environment variable that gRPC
// reads once: call it first in main, before threads and gRPC.
void PollConnectionsInBackground();

}  // namespace deltafin
