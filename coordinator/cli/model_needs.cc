#include "coordinator/cli/model_needs.h"

#include <filesystem>
#include <system_error>

#include "common/base/manifest.h"
#include "common/base/safetensors.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "coordinator/options.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

// An installed model's are those of what it was installed from.
absl::StatusOr<uint64_t> InstalledShardBytes(const Checkpoint& checkpoint) {
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(checkpoint.model_dir(), "", {}));
  uint64_t total = 0;
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.file.ends_with(".safetensors")) total += entry.bytes;
  }
  return total;
}

absl::StatusOr<uint64_t> ShardBytes(const Checkpoint& checkpoint) {
  if (!checkpoint.has_experts()) return InstalledShardBytes(checkpoint);
  uint64_t total = 0;
  for (const std::string& shard : checkpoint.shards()) {
    const fs::path path = fs::path(checkpoint.model_dir()) / shard;
    std::error_code error;
    total += fs::file_size(path, error);
    if (error)
      return absl::NotFoundError(path.string() + ": " + error.message());
  }
  return total;
}

absl::StatusOr<MachineResources> MeasureMachine(const std::string& model_dir) {
  MachineResources machine;
  ASSIGN_OR_RETURN(machine.memory_available, AvailableMemory());
  machine.num_cpus = static_cast<int>(AllowedCpus().size());
  std::error_code error;
  const fs::space_info space = fs::space(model_dir, error);
  if (!error) machine.disk_free = space.available;
  for (const KernelTarget* target : CompiledKernels()) {
    machine.kernels.push_back(
        {target->name, target->supported(), target->requirements});
  }
  machine.chosen_kernel = BestKernel().name;
  return machine;
}

SpineVariant NeedsOf(const ModelNeeds& model, SpinePrecision precision) {
  SpineVariant spine;
  spine.name = precision == SpinePrecision::kInt8 ? "int8" : "bf16";
  spine.needs = SpineNeeds(model.spec, precision);
  MemoryDemand demand;
  demand.spine = spine.needs;
  demand.context_tokens = model.context_tokens;
  demand.prefill_chunk = CoordinatorOptions().prefill_chunk;
  demand.all_expert_bytes = model.all_expert_bytes;
  demand.least_tier_bytes = LayerExpertBytes(model.spec);
  spine.plan = PlanMemory(demand, model.machine.memory_available);
  return spine;
}

}  // namespace

absl::StatusOr<ModelNeeds> MeasureModelNeeds(const std::string& model_dir,
                                             int64_t context_tokens) {
  ModelNeeds model;
  model.model_dir = model_dir;
  model.context_tokens = context_tokens;
  ASSIGN_OR_RETURN(model.spec, ModelSpec::Load(model_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(model_dir));
  ASSIGN_OR_RETURN(model.file_bytes, ShardBytes(*checkpoint));
  ASSIGN_OR_RETURN(model.machine, MeasureMachine(model_dir));
  model.all_expert_bytes = AllExpertBytes(model.spec);
  model.spines.push_back(NeedsOf(model, SpinePrecision::kBf16));
  model.spines.push_back(NeedsOf(model, SpinePrecision::kInt8));
  return model;
}

}  // namespace deltafin
