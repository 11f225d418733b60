// expert_node/join_answer.h
//
// What a node takes from a coordinator's answer to Join, whatever it says. A
// pure function.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "proto/cluster.pb.h"

namespace deltafin {

struct JoinedCluster {
  std::string coordinator;   // the beginning of its id, for logs: one line
  absl::Duration heartbeat;  // a millisecond to a minute
};

JoinedCluster ReadJoinReply(const v1::JoinReply& reply);

}  // namespace deltafin
