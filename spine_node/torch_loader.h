// spine_node/torch_loader.h
//
// Opens the libtorch spine, which lives in a shared library of its own, and
// presents it as a Spine. This program never links libtorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "spine_node/spine.h"

namespace deltafin {

struct TorchSpineOptions {
  // Directory in released layout.
  std::string model_dir;
  // "cpu", "cuda", "cuda:N" or "mps", in libtorch's words.
  std::string device = "cpu";
  // Threads of libtorch's own pool.
  int num_threads = 1;
  // Bytes of retained generations per sequence; 0 keeps none.
  int64_t generation_bytes = 0;
  // Path of libdeltafin_torch_spine.so. Empty: ../lib/deltafin beside the
  // executable's folder, then the folder this program was built in.
  std::string library;
};

// Loads every weight as f32 (docs/architecture.md: the goldens' second
// opinion). Errors: FAILED_PRECONDITION when the library or libtorch is absent,
// in one sentence; otherwise as LoadCpuSpine. The library stays loaded until
// exit.
absl::StatusOr<std::unique_ptr<Spine>> LoadTorchSpine(
    const TorchSpineOptions& options);

}  // namespace deltafin
