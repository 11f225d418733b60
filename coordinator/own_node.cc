#include "coordinator/own_node.h"

#include "common/base/status_macros.h"
#include "expert_node/expert_node.h"

namespace deltafin {
namespace {

constexpr absl::Duration kDrain = absl::Seconds(5);

}  // namespace

OwnNode::OwnNode() = default;

OwnNode::~OwnNode() {
  if (node_ != nullptr) node_->Shutdown(kDrain);
}

absl::StatusOr<std::unique_ptr<OwnNode>> OwnNode::Start(
    const OwnNodeOptions& options) {
  ExpertNodeOptions node;
  node.model_dir = options.model_dir;
  node.manifest_digest = options.manifest_digest;
  node.hub = options.hub;
  node.ram_bytes = options.tier_bytes;
  node.num_threads = options.num_threads;
  node.kernel = options.kernel;
  node.cards = options.cards;
  node.card_ram_bytes = options.card_ram_bytes;
  std::unique_ptr<OwnNode> own(new OwnNode());
  ASSIGN_OR_RETURN(own->node_, ExpertNode::Create(node));
  RETURN_IF_ERROR(own->node_->Start());
  return own;
}

ExpertStore& OwnNode::held() { return node_->experts().held(); }

std::shared_ptr<grpc::Channel> OwnNode::channel() const {
  return node_->InProcessChannel();
}

StoredExperts* OwnNode::stored_experts() const {
  return node_->stored_experts();
}

}  // namespace deltafin
