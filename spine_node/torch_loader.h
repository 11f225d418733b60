// spine_node/torch_loader.h
//
// Opens the libtorch spine, which lives in a shared library of its own, and
// presents it as a Spine. This program never links libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "spine_node/device_share.h"
#include "spine_node/options.h"
#include "spine_node/partial_spine.h"

namespace deltafin {

struct TorchSpineOptions {
  // Directory in released layout.
  std::string model_dir;
  // "cpu", "cuda", "cuda:N" or "mps", in libtorch's words.
  std::string device = "cpu";
  // kInt8: rows quantised as the CPU spine's.
  SpinePrecision precision = SpinePrecision::kBf16;
  // kPacked: matrices in bf16 or int8 as on a card, which on other devices
  // takes less memory and more time. An int8 spine is always packed.
  DeviceValues values = DeviceValues::kFloat;
  // Layers that are held, the first ones; absent: all and the head.
  std::optional<int> num_layers;
  // Threads of libtorch's own pool.
  int num_threads = 1;
  // Bytes of retained generations per sequence; 0 keeps none.
  int64_t generation_bytes = 0;
  // Path of libdeltafin_torch_spine.so. Empty: ../lib/deltafin beside the
  // executable's folder, then the folder this program was built in.
  std::string library;
};

// How a device keeps matrices: packed on a card, f32 elsewhere.
DeviceValues ValuesOn(const std::string& device);

// Loads the weights (docs/architecture.md: on the processor the goldens' second
// opinion). Errors: FAILED_PRECONDITION when the library or libtorch is absent,
// in one sentence; otherwise as LoadCpuSpine. The library stays loaded until
// exit. Steps begin here (BeginStep and SetRows are UNIMPLEMENTED).
absl::StatusOr<std::unique_ptr<PartialSpine>> LoadTorchSpine(
    const TorchSpineOptions& options);

}  // namespace deltafin
