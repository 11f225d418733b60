#include "kernels/kernel_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/kernels/kernel_target_test.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

TEST(KernelRegistryTest, PrintsWhichTargetsRunHereAndWhichDoNot) {
  int supported = 0;
  for (const char* name : kTargetNames) {
    std::string why;
    const bool runs = FindKernel(name, &why) != nullptr;
    std::printf("target %s: %s\n", name, runs ? "runs" : why.c_str());
    supported += runs;
  }
  EXPECT_GE(supported, 1);
}

TEST(KernelRegistryTest, ListsEachTargetOnceAndTheReferenceLast) {
  std::set<std::string> names;
  for (const KernelTarget* target : CompiledKernels()) {
    EXPECT_TRUE(names.insert(target->name).second) << target->name;
    EXPECT_STRNE(target->requirements, "");
  }
  EXPECT_STREQ(CompiledKernels().back()->name, "reference");
  EXPECT_TRUE(CompiledKernels().back()->supported());
}

TEST(KernelRegistryTest, ChoosesTheFirstSupportedTarget) {
  for (const KernelTarget* target : CompiledKernels()) {
    if (!target->supported()) continue;
    EXPECT_EQ(&BestKernel(), target);
    break;
  }
}

TEST(KernelRegistryTest, FindsATargetByName) {
  std::string why;
  EXPECT_EQ(FindKernel("reference", &why), CompiledKernels().back());
  EXPECT_EQ(why, "");
}

TEST(KernelRegistryTest, NamesTheTargetsItHasWhenAskedForAnother) {
  std::string why;
  EXPECT_EQ(FindKernel("mmx", &why), nullptr);
  EXPECT_THAT(why, HasSubstr("no kernel is named 'mmx'"));
  EXPECT_THAT(why, HasSubstr("reference"));
}

TEST(KernelRegistryTest, SaysWhatAnUnsupportedTargetNeeds) {
  for (const KernelTarget* target : CompiledKernels()) {
    if (target->supported()) continue;
    std::string why;
    EXPECT_EQ(FindKernel(target->name, &why), nullptr);
    EXPECT_THAT(why, HasSubstr(target->requirements));
  }
}

TEST(FloatingPointModeTest, KeepsSubnormals) {
  SetContractFloatingPointMode();
  volatile float smallest_normal = 0x1p-126f;
  EXPECT_EQ(smallest_normal * 0.5f, 0x1p-127f);
  volatile float subnormal = 0x1p-140f;
  EXPECT_EQ(subnormal * 0x1p20f, 0x1p-120f);
}

}  // namespace
}  // namespace deltafin
