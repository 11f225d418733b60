// coordinator/memory_plan.h
//
// How the RAM of a coordinator is divided before anything is loaded: spine,
// sequences, the step in flight, a reserve, and the rest for experts. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "common/base/memory_budget.h"
#include "common/base/model_spec.h"
#include "spine_node/memory_needs.h"

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
  // Experts in this process; 0 where other nodes hold them.
  uint64_t all_expert_bytes = 0;       // of the whole model
  std::optional<uint64_t> tier_bytes;  // as --ram says
};

struct MemoryPlan {
  uint64_t spine_bytes = 0;
  uint64_t sequence_bytes = 0;  // all sequences together
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

}  // namespace deltafin
