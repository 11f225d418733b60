// tests/unit/kernels/kernel_target_test.h
//
// A test that runs once for each kernel target by name. A target that is not
// compiled or not supported by this machine is skipped with the reason, so that
// it never counts as passed.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "kernels/kernel_registry.h"

namespace deltafin {

inline constexpr const char* kTargetNames[] = {"reference", "avx2", "avx512",
                                               "neon", "neon-dot"};

class KernelTargetTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string why;
    target_ = FindKernel(GetParam(), &why);
    if (target_ == nullptr) {
      GTEST_SKIP() << "target not run: " << GetParam() << ": " << why;
    }
    std::printf("target run: %s\n", target_->name);
    SetContractFloatingPointMode();
  }

  const KernelTarget* target_ = nullptr;
};

// neon-dot -> neon_dot, as test names want it.
inline std::string TargetTestName(
    const ::testing::TestParamInfo<const char*>& param) {
  std::string name = param.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// NOLINTNEXTLINE: GoogleTest offers macros alone.
#define DELTAFIN_FOR_EACH_TARGET(suite)                                   \
  INSTANTIATE_TEST_SUITE_P(Targets, suite,                                \
                           ::testing::ValuesIn(::deltafin::kTargetNames), \
                           ::deltafin::TargetTestName)

}  // namespace deltafin
