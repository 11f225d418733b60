#include "coordinator/memory_plan.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

uint64_t LeftOf(uint64_t available, uint64_t used) {
  return available > used ? available - used : 0;
}

constexpr uint64_t kRetainedShare = 8;

}  // namespace

absl::Status MemoryPlan::Check() const {
  return AddContext(
      budget.Check(),
      "memory does not suffice; --spine int8, a smaller --context, "
      "--prefill-chunk, --prefix-cache or --ram, or more --nodes would lower "
      "it");
}

MemoryPlan PlanMemory(const MemoryDemand& demand, uint64_t available_bytes) {
  const SpineMemoryNeeds& spine = demand.spine;
  MemoryPlan plan;
  plan.spine_bytes = spine.weight_bytes;
  plan.sequence_bytes = demand.max_sequences *
                        (spine.sequence_fixed_bytes +
                         (demand.has_drafts ? spine.sequence_draft_bytes : 0) +
                         demand.context_tokens * spine.sequence_token_bytes);
  plan.step_bytes = demand.prefill_chunk * spine.step_token_bytes;
  uint64_t used =
      plan.spine_bytes + plan.sequence_bytes + plan.step_bytes + kReserveBytes;
  plan.retained_bytes = demand.retained_bytes.value_or(std::min(
      plan.sequence_bytes, LeftOf(available_bytes, used) / kRetainedShare));
  used += plan.retained_bytes;
  plan.tier_bytes = demand.tier_bytes.value_or(
      std::min(demand.all_expert_bytes, LeftOf(available_bytes, used)));
  if (demand.all_expert_bytes == 0) plan.tier_bytes = 0;
  plan.budget = MemoryBudget(available_bytes);
  plan.budget.Add("spine", plan.spine_bytes);
  plan.budget.Add("state of " + std::to_string(demand.max_sequences) +
                      " sequence(s) of " +
                      std::to_string(demand.context_tokens) + " tokens",
                  plan.sequence_bytes);
  if (plan.retained_bytes > 0) {
    plan.budget.Add("states retained for later prompts", plan.retained_bytes);
  }
  plan.budget.Add("step of " + std::to_string(demand.prefill_chunk) + " tokens",
                  plan.step_bytes);
  plan.budget.Add("expert tier", plan.tier_bytes);
  plan.budget.Add("reserve", kReserveBytes);
  return plan;
}

uint64_t AllExpertBytes(const ModelSpec& spec) {
  const ExpertShape shape = spec.expert_shape();
  // A node keeps slices in slots of the largest one, on cache lines.
  const uint64_t slot = (shape.slice_offset(1) + 63) / 64 * 64;
  return static_cast<uint64_t>(spec.num_moe_layers()) *
         static_cast<uint64_t>(spec.num_experts) *
         static_cast<uint64_t>(shape.num_slices()) * slot;
}

}  // namespace deltafin
