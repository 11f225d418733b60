// coordinator/spine_assembly.h
//
// Where the layers of the spine run, what that takes of the host's memory, and
// the spine itself.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "coordinator/options.h"
#include "kernels/kernel_registry.h"
#include "spine_node/device_share.h"
#include "spine_node/memory_needs.h"
#include "spine_node/spine.h"

namespace deltafin {

struct SpinePlacement {
  DeviceShare device;     // empty: all layers run on the host
  SpineMemoryNeeds host;  // of the host's memory

  bool on_host_alone() const { return device.num_layers == 0; }
};

// As the options say. REQUIRES: options.context_tokens is settled.
SpinePlacement PlaceSpine(const CoordinatorOptions& options,
                          const ModelSpec& spec);

// Loads the spine so. `num_streamed`: of the layers on the host; kernel and
// threads outlive it. Errors: as LoadCpuSpine and LoadTorchSpine.
absl::StatusOr<std::unique_ptr<Spine>> LoadSpine(
    const CoordinatorOptions& options, const ModelSpec& spec,
    const SpinePlacement& placement, int num_streamed,
    const KernelTarget& kernel, ThreadPool& threads);

}  // namespace deltafin
