#include "coordinator/engine/dispatch_plan.h"

#include <algorithm>

#include "common/base/check.h"

namespace deltafin {

SliceRun RunOf(const v1::LayerRequest& request, int assignment) {
  return {static_cast<int>(request.first_slice(assignment)),
          static_cast<int>(request.num_slices(assignment))};
}

void DispatchPlan::Build(const LayerId& id, const RoutedTokens& routed,
                         int num_nodes, CutExpert cut, UnitsOf units) {
  id_ = id;
  num_tokens_ = routed.num_tokens;
  num_nodes_ = 0;
  Grow(num_nodes);
  for (NodeParts& node : nodes_) {
    node.num_used = 0;
    node.first_growing = 0;
    node.num_open = 0;
  }
  for (int token = 0; token < routed.num_tokens; ++token) {
    for (int k = 0; k < routed.top_k; ++k) {
      const size_t choice = size_t(token) * routed.top_k + k;
      const int32_t expert = routed.experts[choice];
      cut(expert, &runs_);
      for (const NodeRun& run : runs_) {
        Add({token, expert, routed.weights[choice], units(expert)}, run);
      }
    }
  }
  num_incomplete_ = 0;
  for (NodeParts& node : nodes_) {
    num_incomplete_ += static_cast<int>(node.num_used);
    for (size_t part = 0; part < node.num_used; ++part) {
      node.parts[part].request.set_num_parts(
          static_cast<uint32_t>(node.num_used));
    }
  }
}

void DispatchPlan::Grow(int num_nodes) {
  num_nodes_ = std::max(num_nodes_, num_nodes);
  if (nodes_.size() < static_cast<size_t>(num_nodes)) nodes_.resize(num_nodes);
}

void DispatchPlan::Replace(PartRef ref,
                           std::span<const std::vector<NodeRun>> runs) {
  // A copy: parts move when their node gets more.
  const PlannedPart old = part(ref);
  DCHECK(old.state == PartState::kOpen && old.replaced_by.empty());
  for (NodeParts& node : nodes_) node.first_growing = node.num_used;
  const double units = old.units / static_cast<double>(old.num_slices);
  uint32_t i = 0;
  for (size_t row = 0; row < old.rows.size(); ++row) {
    for (; i < old.request.assignment_end(static_cast<int>(row)); ++i) {
      for (const NodeRun& run : runs[i]) {
        Add({old.rows[row], static_cast<int32_t>(old.request.expert(i)),
             old.request.weight(i), units},
            run);
      }
    }
  }
  for (int node = 0; node < num_nodes_; ++node) {
    const auto num_used = static_cast<int>(nodes_[node].num_used);
    for (auto new_part = static_cast<int>(nodes_[node].first_growing);
         new_part < num_used; ++new_part) {
      part({node, new_part}).replaces = ref;
      part({node, new_part}).refused_by = old.refused_by;
      part(ref).replaced_by.push_back({node, new_part});
    }
  }
}

void DispatchPlan::MarkAnswered(PartRef ref) {
  DCHECK(part(ref).state == PartState::kOpen);
  part(ref).state = PartState::kAnswered;
  --nodes_[ref.node].num_open;
  for (const PartRef& other : part(ref).replaced_by) Supersede(other);
  PartRef root = ref;
  while (part(root).replaces) {
    root = *part(root).replaces;
    if (part(root).state == PartState::kOpen) {
      part(root).state = PartState::kSuperseded;
      --nodes_[root.node].num_open;
    }
  }
  if (IsComplete(root)) --num_incomplete_;
}

void DispatchPlan::Supersede(PartRef ref) {
  PlannedPart& superseded = part(ref);
  if (superseded.state == PartState::kOpen) --nodes_[ref.node].num_open;
  superseded.state = PartState::kSuperseded;
  for (const PartRef& other : superseded.replaced_by) Supersede(other);
}

bool DispatchPlan::IsComplete(PartRef ref) const {
  const PlannedPart& asked = part(ref);
  if (asked.state == PartState::kAnswered) return true;
  return !asked.replaced_by.empty() &&
         std::all_of(
             asked.replaced_by.begin(), asked.replaced_by.end(),
             [this](const PartRef& other) { return IsComplete(other); });
}

std::span<PlannedPart> DispatchPlan::parts(int node) {
  return {nodes_[node].parts.data(), nodes_[node].num_used};
}

std::span<const PlannedPart> DispatchPlan::parts(int node) const {
  return {nodes_[node].parts.data(), nodes_[node].num_used};
}

void DispatchPlan::Add(const Choice& choice, const NodeRun& run) {
  NodeParts& node = nodes_[run.node];
  PlannedPart* part = node.num_used > node.first_growing
                          ? &node.parts[node.num_used - 1]
                          : nullptr;
  if (part == nullptr || part->rows.back() != choice.token) {
    if (part == nullptr || part->rows.size() == kMaxTokensPerMessage) {
      part = &NewPart(run.node);
    }
    part->rows.push_back(choice.token);
    part->request.set_num_tokens(static_cast<uint32_t>(part->rows.size()));
    part->request.add_assignment_end(part->request.expert_size());
  }
  v1::LayerRequest& request = part->request;
  request.add_expert(static_cast<uint32_t>(choice.expert));
  request.add_first_slice(static_cast<uint32_t>(run.slices.first));
  request.add_num_slices(static_cast<uint32_t>(run.slices.count));
  request.add_weight(choice.weight);
  request.set_assignment_end(request.assignment_end_size() - 1,
                             static_cast<uint32_t>(request.expert_size()));
  part->num_slices += run.slices.count;
  part->units += choice.units * run.slices.count;
}

PlannedPart& DispatchPlan::NewPart(int node_index) {
  NodeParts& node = nodes_[node_index];
  if (node.num_used == node.parts.size()) node.parts.emplace_back();
  PlannedPart& part = node.parts[node.num_used];
  part.request.Clear();
  part.request.set_epoch(id_.epoch);
  part.request.set_step(id_.step);
  part.request.set_layer(static_cast<uint32_t>(id_.layer));
  part.request.set_part(static_cast<uint32_t>(node.num_used));
  part.rows.clear();
  part.num_slices = 0;
  part.units = 0;
  part.state = PartState::kOpen;
  part.sent = absl::InfiniteFuture();
  part.refusal = absl::OkStatus();
  part.replaces.reset();
  part.is_hedge = false;
  part.replaced_by.clear();
  part.refused_by.clear();
  part.stranded_since = absl::InfiniteFuture();
  ++node.num_used;
  ++node.num_open;
  return part;
}

}  // namespace deltafin
