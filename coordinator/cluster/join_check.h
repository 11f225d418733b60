// coordinator/cluster/join_check.h
//
// Are the fields of what nodes send within their bounds? Pure, but for
// CheckReach, which asks the resolver for names.
#pragma once

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace deltafin {

// Errors of all: INVALID_ARGUMENT naming the first field that is out of
// bounds, with its value and what is accepted. Holdings are checked by
// SliceSet, identities by CheckNodeIdentity.
absl::Status CheckJoinFields(const v1::JoinRequest& request);
absl::Status CheckHeartbeatFields(const v1::HeartbeatRequest& request);
absl::Status CheckNextCopiesFields(const v1::NextCopiesRequest& request);
absl::Status CheckLeaveFields(const v1::LeaveRequest& request);
// The asker alone: the run is checked against the model.
absl::Status CheckFindOwnersFields(const v1::FindOwnersRequest& request);

// OK when the address may be called: where only this machine may be, its host
// is a loopback address. REQUIRES: an address that CheckJoinFields accepts.
absl::Status CheckReach(const std::string& address, bool loopback_only);

}  // namespace deltafin
