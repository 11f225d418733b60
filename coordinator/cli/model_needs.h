// coordinator/cli/model_needs.h
//
// What a model needs against what this machine has, found without loading it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/memory_plan.h"

namespace deltafin {

struct KernelChoice {
  std::string name;
  bool supported = false;
  std::string requirements;
};

struct MachineResources {
  uint64_t memory_available = 0;
  int num_cpus = 0;
  uint64_t disk_free = 0;  // where the model is
  std::vector<KernelChoice> kernels;
  std::string chosen_kernel;
};

// One precision of the spine with all experts in the same process.
struct SpineVariant {
  std::string name;  // "bf16", "int8"
  SpineMemoryNeeds needs;
  MemoryPlan plan;  // one sequence of context_tokens, a default step
};

struct ModelNeeds {
  std::string model_dir;
  ModelSpec spec;
  int64_t context_tokens = 0;
  uint64_t file_bytes = 0;  // of all shards
  std::vector<SpineVariant> spines;
  uint64_t all_expert_bytes = 0;
  MachineResources machine;
};

// Reads config, index and shard sizes. Errors: as ModelSpec::Load and
// Checkpoint::Open.
absl::StatusOr<ModelNeeds> MeasureModelNeeds(const std::string& model_dir,
                                             int64_t context_tokens);

std::string ModelNeedsTable(const ModelNeeds& needs);
std::string ModelNeedsJson(const ModelNeeds& needs);

}  // namespace deltafin
