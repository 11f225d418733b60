// expert_node/peer_answers.h
//
// What other machines of the cluster answer to a node that lacks slices, looked
// through before anything is done with it. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "expert_node/storage/peer_store.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "proto/cluster.pb.h"
#include "proto/expert.pb.h"

namespace deltafin {

// A coordinator names four nodes and itself; further ones are not tried.
inline constexpr int kMaxOwnersOfRun = 8;

std::vector<std::string> FirstOwners(
    const google::protobuf::RepeatedPtrField<std::string>& owners);

// Runs that cover what was asked for, ascending. Errors: INTERNAL where those
// of the answer do not.
absl::StatusOr<std::vector<SlicePeers::OwnedRun>> OwnedRunsOf(
    const v1::FindOwnersReply& reply, SliceRun run);

// Gives a slice of the run to `take`. Errors: DATA_LOSS for one that was not
// asked for; those of `take`.
absl::Status GiveSlice(const v1::SliceBytes& slice, SliceRun run,
                       SlicePeers::TakeSlice take);

}  // namespace deltafin
