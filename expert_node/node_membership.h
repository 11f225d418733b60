// expert_node/node_membership.h
//
// What a node tells the cluster that it joins. Assembles a CoordinatorClient.
#pragma once

#include <functional>
#include <memory>

#include "expert_node/coordinator_client.h"
#include "expert_node/data_folder.h"
#include "expert_node/expert_node.h"
#include "expert_node/options.h"

namespace deltafin {

// Joins `options.coordinator`. `model_dir` is where the experts lie; `node` and
// `folder` must outlive the client. REQUIRES: the node was started and has the
// folder's id.
std::unique_ptr<CoordinatorClient> JoinCluster(
    const NodeJoinOptions& options, const std::string& model_dir,
    const ExpertNode& node, DataFolder& folder,
    std::function<void(const absl::Status&)> on_refused);

}  // namespace deltafin
