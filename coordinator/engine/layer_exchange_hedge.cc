// Work that is late is asked of another node as well, within a budget.

#include <algorithm>

#include "coordinator/engine/layer_exchange.h"

namespace deltafin {

absl::Time LayerExchange::Hedge(absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  if (!hedges_.enabled()) return next;
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    if (plan_.num_open(node) == 0 || !fitness_[node].fit ||
        !costs_.knows(node)) {
      continue;
    }
    next = std::min(next, HedgeNode(node, now));
  }
  return next;
}

// The node does its parts one after the other: the one that it works on now is
// the first that is open.
absl::Time LayerExchange::HedgeNode(int node, absl::Time now) {
  const int num_parts = static_cast<int>(plan_.parts(node).size());
  for (int i = 0; i < num_parts; ++i) {
    const PartRef ref = {node, i};
    const PlannedPart& part = plan_.part(ref);
    if (part.state != PartState::kOpen) continue;
    if (part.sent == absl::InfiniteFuture() || part.replaces ||
        !part.replaced_by.empty() || IsLost(ref)) {
      break;
    }
    const absl::Time late =
        std::max(part.sent, watch_.last_heard(node)) +
        hedges_.LateAfter(node, costs_.Expected(node, part.units));
    if (now < late) return late;
    const int other = IdleHolder(ref);
    if (other >= 0 && hedges_.Spend(static_cast<int64_t>(part.num_slices))) {
      AskToo(ref, other, now);
    }
    break;
  }
  return absl::InfiniteFuture();
}

// A node with nothing to do that holds all that the part asks for; -1: none.
int LayerExchange::IdleHolder(PartRef ref) const {
  const PlannedPart& part = plan_.part(ref);
  const Placement& placement = links_.placement();
  for (int node = 0; node < links_.num_slots(); ++node) {
    if (node == ref.node || !fitness_[node].fit ||
        !placement.member(node).is_wanted() || plan_.num_open(node) > 0 ||
        std::find(part.refused_by.begin(), part.refused_by.end(), node) !=
            part.refused_by.end()) {
      continue;
    }
    bool holds_all = true;
    for (int i = 0; holds_all && i < part.request.expert_size(); ++i) {
      const ExpertKey key = {id_.layer,
                             static_cast<int32_t>(part.request.expert(i))};
      holds_all = placement.Holds(node, key, RunOf(part.request, i));
    }
    if (holds_all) return node;
  }
  return -1;
}

void LayerExchange::AskToo(PartRef ref, int other, absl::Time now) {
  const v1::LayerRequest& request = plan_.part(ref).request;
  const auto num_assignments = static_cast<size_t>(request.expert_size());
  if (other_runs_.size() < num_assignments) other_runs_.resize(num_assignments);
  for (size_t i = 0; i < num_assignments; ++i) {
    other_runs_[i] = {{other, RunOf(request, static_cast<int>(i))}};
  }
  NodeWork& work = work_[ref.node];
  ++work.parts_hedged;
  work.slices_hedged += static_cast<int64_t>(plan_.part(ref).num_slices);
  work.hedged_after = now - begun_;
  plan_.Replace(ref, std::span(other_runs_).first(num_assignments));
  for (const PartRef& hedge : plan_.part(ref).replaced_by) {
    plan_.part(hedge).is_hedge = true;
  }
  SendNext(other);
}

// The node that was late may still answer: nothing is lost with the other.
bool LayerExchange::IsStillAwaited(PartRef ref) const {
  return plan_.part(ref).state == PartState::kOpen && fitness_[ref.node].fit &&
         !IsLost(ref);
}

}  // namespace deltafin
