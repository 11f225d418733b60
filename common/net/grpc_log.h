// common/net/grpc_log.h
//
// gRPC's and libprotobuf's own logs, which repeat, at length, what our statuses
// say, go to ours at level debug. Thread-safe.
#pragma once

#include "common/net/refused_peers.h"

namespace deltafin {

// Of the process, as gRPC's log is: its lines tell of refused peers.
RefusedPeers& GrpcPeers();

// Once for the process; later calls do nothing.
void TakeGrpcLog();

}  // namespace deltafin
