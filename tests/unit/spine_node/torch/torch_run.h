// tests/unit/spine_node/torch/torch_run.h
//
// The libtorch spine on the device that the tests run on: the processor, unless
// DELTAFIN_TEST_TORCH_DEVICE names another one ("cuda").
#pragma once

#include <string>
#include <vector>

#include "spine_node/torch_loader.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {

// For a model on that device.
TorchSpineOptions TorchOptions(const std::string& model_dir);

SpineRun TorchRun(const TorchSpineOptions& options);

}  // namespace deltafin::testing
