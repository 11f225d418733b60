// expert_node/share_membership.h
//
// Assembles what a node needs that holds only its share of a model: the model's
// small files, the way to the other nodes, the filler.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "expert_node/coordinator_client.h"
#include "expert_node/expert_node.h"
#include "expert_node/options.h"
#include "expert_node/peer_client.h"
#include "expert_node/share_filler.h"

namespace deltafin {

// Brings the model's files from the coordinator to options.model_dir and fills
// options.manifest_digest. A coordinator that is away is waited for, unless the
// files are there from an earlier start. Errors: those of FetchModelFiles.
absl::Status LearnModel(const NodeJoinOptions& join,
                        ExpertNodeOptions* options);

// REQUIRES: LearnModel returned OK.
absl::StatusOr<std::unique_ptr<PeerClient>> ReachPeers(
    const NodeJoinOptions& join, const ExpertNodeOptions& options);

// Begins to fill. All must outlive the filler. REQUIRES: node.share().
std::unique_ptr<ShareFiller> FillShare(ExpertNode& node, PeerClient& peers,
                                       CoordinatorClient& coordinator);

// Of a node without a filler: what it holds is what it is meant to hold.
ShareReport WholeShareOf(const ExpertNode& node);

}  // namespace deltafin
