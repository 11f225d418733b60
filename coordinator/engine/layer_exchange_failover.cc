// What becomes of work whose node does not do it.

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/layer_exchange.h"

namespace deltafin {

bool LacksSlices(const absl::Status& refusal) {
  return absl::IsNotFound(refusal) || absl::IsFailedPrecondition(refusal);
}

absl::Status LayerExchange::Mend(absl::Time now) {
  mended_ = now;
  mend_now_ = false;
  links_.Refresh(now);
  Grow(links_.num_slots());
  UpdateFitness(now);
  assignment_.Update(links_.placement(), fitness_);
  for (int node = 0; node < plan_.num_nodes(); ++node) {
    if (plan_.num_open(node) == 0) {
      watch_.Heard(node, now);  // owes nothing until it gets work again
      continue;
    }
    if (links_.is_fit(node) &&
        watch_.IsStalled(node, plan_.parts(node), costs_, now)) {
      links_.MarkStalled(
          node, absl::DeadlineExceededError(fmt::format(
                    "node {}: silent for {}", links_.name(node),
                    absl::FormatDuration(now - watch_.last_heard(node)))));
      fitness_[node].fit = false;
    }
    RETURN_IF_ERROR(MendNode(node, now));
  }
  for (int node = 0; node < plan_.num_nodes(); ++node) SendNext(node);
  return absl::OkStatus();
}

absl::Status LayerExchange::MendNode(int node, absl::Time now) {
  // By number: giving a part away may add parts, also to this node.
  const int num_parts = static_cast<int>(plan_.parts(node).size());
  for (int i = 0; i < num_parts; ++i) {
    const PartRef ref = {node, i};
    const PlannedPart& part = plan_.part(ref);
    if (part.state != PartState::kOpen || !part.replaced_by.empty()) continue;
    if (fitness_[node].fit && !IsLost(ref)) continue;
    RETURN_IF_ERROR(GiveAway(ref, now));
  }
  return absl::OkStatus();
}

// No answer to it can come any more.
bool LayerExchange::IsLost(PartRef ref) const {
  const PlannedPart& part = plan_.part(ref);
  if (!part.refusal.ok() || !links_.connected(ref.node)) return true;
  return part.sent != absl::InfiniteFuture() &&
         part.stream != links_.stream(ref.node);
}

absl::Status LayerExchange::GiveAway(PartRef ref, absl::Time now) {
  if (plan_.part(ref).is_hedge && IsStillAwaited(*plan_.part(ref).replaces)) {
    return absl::OkStatus();
  }
  const int stranded = FindOthers(plan_.part(ref));
  if (stranded < 0) {
    ++work_[ref.node].parts_lost;
    work_[ref.node].given_up_after = now - begun_;
    const size_t num_assignments =
        static_cast<size_t>(plan_.part(ref).request.expert_size());
    plan_.Replace(ref, std::span(other_runs_).first(num_assignments));
    return absl::OkStatus();
  }
  // Who is only slow has until the layer's deadline.
  if (!IsLost(ref)) return absl::OkStatus();
  PlannedPart& part = plan_.part(ref);
  part.stranded_since = std::min(part.stranded_since, now);
  if (now - part.stranded_since < options_.owner_patience &&
      MayComeBack(ref, stranded)) {
    return absl::OkStatus();
  }
  return Stranded(ref, stranded);
}

int LayerExchange::FindOthers(const PlannedPart& part) {
  const int num_assignments = part.request.expert_size();
  if (other_runs_.size() < static_cast<size_t>(num_assignments)) {
    other_runs_.resize(num_assignments);
  }
  for (int i = 0; i < num_assignments; ++i) {
    assignment_.Reassign(static_cast<int32_t>(part.request.expert(i)),
                         RunOf(part.request, i), part.refused_by,
                         &other_runs_[i]);
    if (other_runs_[i].empty()) return i;
  }
  return -1;
}

// Some member holds what the assignment needs, or could fetch it, or a node
// that was given up still has the same work.
bool LayerExchange::MayComeBack(PartRef ref, int assignment) const {
  const PlannedPart& part = plan_.part(ref);
  const ExpertKey key = {id_.layer,
                         static_cast<int32_t>(part.request.expert(assignment))};
  const SliceRun run = RunOf(part.request, assignment);
  for (int slot = 0; slot < links_.num_slots(); ++slot) {
    if ((links_.placement().Holds(slot, key, run) ||
         links_.placement().Reaches(slot, key, run)) &&
        std::find(part.refused_by.begin(), part.refused_by.end(), slot) ==
            part.refused_by.end()) {
      return true;
    }
  }
  for (std::optional<PartRef> old = part.replaces; old;
       old = plan_.part(*old).replaces) {
    if (plan_.part(*old).state == PartState::kOpen && !IsLost(*old)) {
      return true;
    }
  }
  return false;
}

absl::Status LayerExchange::Stranded(PartRef ref, int assignment) const {
  const PlannedPart& part = plan_.part(ref);
  if (!part.refusal.ok() && !LacksSlices(part.refusal)) return part.refusal;
  const SliceRun run = RunOf(part.request, assignment);
  const absl::Status& failure =
      part.refusal.ok() ? links_.failure(ref.node) : part.refusal;
  return absl::UnavailableError(fmt::format(
      "layer {} expert {}: no node is left for slices {} to {}: {}; start the "
      "node again or add one that holds them",
      id_.layer, part.request.expert(assignment), run.first,
      run.first + run.count - 1,
      failure.ok() ? fmt::format("node {} left", links_.name(ref.node))
                   : std::string(failure.message())));
}

}  // namespace deltafin
