// expert_node/handshake.h
//
// Do a coordinator and this node mean the same model and arithmetic? A pure
// function.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "proto/expert.pb.h"

namespace deltafin {

// Errors: FAILED_PRECONDITION naming what differs, both values and what to do.
absl::Status CheckHandshake(const v1::HandshakeRequest& request,
                            const v1::HandshakeReply& identity);

// What the coordinator calls itself, for logs: one short line.
std::string NameOfCoordinator(const v1::HandshakeRequest& request);

}  // namespace deltafin
