// coordinator/memory_plan.h
//
// How the RAM of a coordinator is divided before anything is loaded: spine,
// sequences, the step in flight, a reserve, and the rest for experts. Pure.
//
// The spine comes first: every token reads all of it, but an expert only now
// and then, so a byte of the spine saves more reading. Where memory does not
// hold it, the experts in this process keep what one token wants of a layer (or
// what --ram says), states are not retained unless --prefix-cache says so, and
// the layers that still do not fit are read for every step (residency.h).
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/base/memory_budget.h"
#include "common/base/model_spec.h"
#include "spine_node/memory_needs.h"
#include "spine_node/residency.h"

namespace deltafin {

// Program, network buffers, file reads in flight and the scratch of the layers,
// which is about 0.3 GB for K3 (memory_needs.h).
inline constexpr uint64_t kReserveBytes = uint64_t{512} << 20;

struct MemoryDemand {
  SpineMemoryNeeds spine;
  int64_t context_tokens = 0;
  int max_sequences = 1;
  int prefill_chunk = 0;
  // Room in every sequence for the drafts of speculative decoding.
  bool has_drafts = false;
  // States retained for later prompts, as --prefix-cache says; absent: an
  // eighth of what spine, sequences, step and reserve leave, at most what the
  // sequences hold.
  std::optional<uint64_t> retained_bytes = 0;
  // Most bytes of the spine's weights, as --spine-ram says.
  std::optional<uint64_t> spine_limit;
  // Experts in this process; 0 where other nodes hold them.
  uint64_t all_expert_bytes = 0;       // of the whole model
  std::optional<uint64_t> tier_bytes;  // as --ram says
  // Kept for experts where the spine does not fit beside it.
  uint64_t least_tier_bytes = 0;
};

struct MemoryPlan {
  SpineResidency spine;
  std::optional<uint64_t> spine_limit;  // of the demand
  uint64_t sequence_bytes = 0;          // all sequences together
  uint64_t retained_bytes = 0;
  uint64_t step_bytes = 0;
  uint64_t tier_bytes = 0;  // expert tier
  MemoryBudget budget{0};   // the same as a table

  // Errors: RESOURCE_EXHAUSTED with the table and what to change.
  absl::Status Check() const;
};

// Divides `available_bytes`. Always makes a plan; Check tells whether it fits.
MemoryPlan PlanMemory(const MemoryDemand& demand, uint64_t available_bytes);

// All routed experts of the model as a node holds them in RAM.
uint64_t AllExpertBytes(const ModelSpec& spec);
// Those that one token wants of a layer.
uint64_t LayerExpertBytes(const ModelSpec& spec);

}  // namespace deltafin
