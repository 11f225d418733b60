#include "coordinator/engine/dispatch_plan.h"

namespace deltafin {

DispatchPlan::DispatchPlan(int num_nodes) : nodes_(num_nodes) {}

void DispatchPlan::Build(const LayerId& id, const RoutedTokens& routed,
                         const CutPolicy& policy) {
  id_ = id;
  num_tokens_ = routed.num_tokens;
  for (NodeParts& node : nodes_) node.num_used = 0;
  for (int token = 0; token < routed.num_tokens; ++token) {
    for (int k = 0; k < routed.top_k; ++k) {
      const size_t choice = size_t(token) * routed.top_k + k;
      const int32_t expert = routed.experts[choice];
      policy.Cut({id.layer, expert}, &runs_);
      for (const NodeRun& run : runs_) {
        AddAssignment(token, expert, routed.weights[choice], run);
      }
    }
  }
  for (NodeParts& node : nodes_) {
    for (size_t part = 0; part < node.num_used; ++part) {
      node.parts[part].request.set_num_parts(
          static_cast<uint32_t>(node.num_used));
    }
  }
}

std::span<PlannedPart> DispatchPlan::parts(int node) {
  return {nodes_[node].parts.data(), nodes_[node].num_used};
}

std::span<const PlannedPart> DispatchPlan::parts(int node) const {
  return {nodes_[node].parts.data(), nodes_[node].num_used};
}

void DispatchPlan::AddAssignment(int token, int32_t expert, float weight,
                                 const NodeRun& run) {
  NodeParts& node = nodes_[run.node];
  PlannedPart* part =
      node.num_used > 0 ? &node.parts[node.num_used - 1] : nullptr;
  if (part == nullptr || part->rows.back() != token) {
    if (part == nullptr || part->rows.size() == kMaxTokensPerMessage) {
      part = &NewPart(&node);
    }
    part->rows.push_back(token);
    part->request.set_num_tokens(static_cast<uint32_t>(part->rows.size()));
    part->request.add_assignment_end(part->request.expert_size());
  }
  v1::LayerRequest& request = part->request;
  request.add_expert(static_cast<uint32_t>(expert));
  request.add_first_slice(static_cast<uint32_t>(run.slices.first));
  request.add_num_slices(static_cast<uint32_t>(run.slices.count));
  request.add_weight(weight);
  request.set_assignment_end(request.assignment_end_size() - 1,
                             static_cast<uint32_t>(request.expert_size()));
  part->num_slices += run.slices.count;
}

PlannedPart& DispatchPlan::NewPart(NodeParts* node) {
  if (node->num_used == node->parts.size()) node->parts.emplace_back();
  PlannedPart& part = node->parts[node->num_used];
  part.request.Clear();
  part.request.set_epoch(id_.epoch);
  part.request.set_step(id_.step);
  part.request.set_layer(static_cast<uint32_t>(id_.layer));
  part.request.set_part(static_cast<uint32_t>(node->num_used));
  part.rows.clear();
  part.num_slices = 0;
  ++node->num_used;
  return part;
}

}  // namespace deltafin
