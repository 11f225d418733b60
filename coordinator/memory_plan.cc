#include "coordinator/memory_plan.h"

#include <algorithm>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

uint64_t LeftOf(uint64_t available, uint64_t used) {
  return available > used ? available - used : 0;
}

constexpr uint64_t kRetainedShare = 8;

// One expert in slots of the largest slice, on cache lines, as a node keeps it.
uint64_t ExpertSlotBytes(const ModelSpec& spec) {
  const ExpertShape shape = spec.expert_shape();
  const uint64_t slot = (shape.slice_offset(1) + 63) / 64 * 64;
  return static_cast<uint64_t>(shape.num_slices()) * slot;
}

// The tier that the demand names, or `otherwise` where that is less than all.
uint64_t TierBytes(const MemoryDemand& demand, uint64_t otherwise) {
  if (demand.all_expert_bytes == 0) return 0;
  return demand.tier_bytes.value_or(
      std::min(demand.all_expert_bytes, otherwise));
}

SpineResidency PlaceSpine(const MemoryDemand& demand, uint64_t room) {
  return ChooseResidency(static_cast<uint64_t>(demand.spine.weight_bytes),
                         demand.spine.layer_row_bytes,
                         std::min(room, demand.spine_limit.value_or(room)));
}

void AddSpine(const MemoryDemand& demand, MemoryPlan& plan) {
  const SpineResidency& spine = plan.spine;
  if (spine.num_streamed == 0) {
    plan.budget.Add("spine", spine.memory_bytes);
    return;
  }
  const size_t num_layers = demand.spine.layer_row_bytes.size();
  plan.budget.Add(fmt::format("spine, {} of {} layers in memory",
                              num_layers - spine.num_streamed, num_layers),
                  spine.memory_bytes - spine.buffer_bytes);
  plan.budget.Add(fmt::format("buffers for {} layers read for every step",
                              spine.num_streamed),
                  spine.buffer_bytes);
}

void FillBudget(const MemoryDemand& demand, MemoryPlan& plan) {
  AddSpine(demand, plan);
  plan.budget.Add(fmt::format("state of {} sequence(s) of {} tokens",
                              demand.max_sequences, demand.context_tokens),
                  plan.sequence_bytes);
  if (plan.retained_bytes > 0) {
    plan.budget.Add("states retained for later prompts", plan.retained_bytes);
  }
  plan.budget.Add(fmt::format("step of {} tokens", demand.prefill_chunk),
                  plan.step_bytes);
  plan.budget.Add("expert tier", plan.tier_bytes);
  plan.budget.Add("reserve", kReserveBytes);
}

}  // namespace

absl::Status MemoryPlan::Check() const {
  if (spine_limit && spine.memory_bytes > *spine_limit) {
    return absl::ResourceExhaustedError(fmt::format(
        "--spine-ram {}: the spine takes at least {}, {} of it buffers, with "
        "{} layers read for every step",
        FormatByteSize(*spine_limit), FormatByteSize(spine.memory_bytes),
        FormatByteSize(spine.buffer_bytes), spine.num_streamed));
  }
  return AddContext(
      budget.Check(),
      "memory does not suffice; --spine int8, a smaller --context, "
      "--prefill-chunk, --prefix-cache or --ram, or more --nodes would lower "
      "it");
}

MemoryPlan PlanMemory(const MemoryDemand& demand, uint64_t available_bytes) {
  const SpineMemoryNeeds& spine = demand.spine;
  MemoryPlan plan;
  plan.spine_limit = demand.spine_limit;
  plan.sequence_bytes = demand.max_sequences *
                        (spine.sequence_fixed_bytes +
                         (demand.has_drafts ? spine.sequence_draft_bytes : 0) +
                         demand.context_tokens * spine.sequence_token_bytes);
  plan.step_bytes = demand.prefill_chunk * spine.step_token_bytes;
  uint64_t used = plan.sequence_bytes + plan.step_bytes + kReserveBytes;
  plan.spine = PlaceSpine(
      demand,
      LeftOf(available_bytes, used + demand.retained_bytes.value_or(0) +
                                  TierBytes(demand, demand.least_tier_bytes)));
  used += plan.spine.memory_bytes;
  plan.retained_bytes = demand.retained_bytes.value_or(std::min(
      plan.sequence_bytes, LeftOf(available_bytes, used) / kRetainedShare));
  used += plan.retained_bytes;
  plan.tier_bytes = TierBytes(demand, LeftOf(available_bytes, used));
  plan.budget = MemoryBudget(available_bytes);
  FillBudget(demand, plan);
  return plan;
}

uint64_t AllExpertBytes(const ModelSpec& spec) {
  return static_cast<uint64_t>(spec.num_moe_layers()) *
         static_cast<uint64_t>(spec.num_experts) * ExpertSlotBytes(spec);
}

uint64_t LayerExpertBytes(const ModelSpec& spec) {
  return static_cast<uint64_t>(spec.num_experts_per_token) *
         ExpertSlotBytes(spec);
}

}  // namespace deltafin
