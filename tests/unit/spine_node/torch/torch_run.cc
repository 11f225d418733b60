#include "tests/unit/spine_node/torch/torch_run.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace deltafin::testing {
namespace {

// Workers of BLAS and OpenMP that spin would fight with the tests beside this.
const bool kOneThread = [] {
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  return true;
}();

}  // namespace

TorchSpineOptions TorchOptions(const std::string& model_dir) {
  EXPECT_TRUE(kOneThread);
  const char* device = std::getenv("DELTAFIN_TEST_TORCH_DEVICE");
  TorchSpineOptions options;
  options.model_dir = model_dir;
  options.device = device == nullptr ? "cpu" : device;
  options.values = ValuesOn(options.device);
  return options;
}

SpineRun TorchRun(const TorchSpineOptions& options) {
  auto spine = LoadTorchSpine(options);
  EXPECT_TRUE(spine.ok()) << spine.status();
  return SpineRun(options.model_dir, *std::move(spine));
}

}  // namespace deltafin::testing
