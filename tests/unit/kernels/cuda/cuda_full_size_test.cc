// A card on experts of the full model's size against the processor's kernel.
#include <gtest/gtest.h>

#include "tests/unit/kernels/cuda/cuda_layer_case.h"

namespace deltafin {
namespace {

TEST(CudaFullSizeTest, GivesTheProcessorsSumsForOneToManyTokens) {
  std::string why;
  if (FindCudaCards(&why).empty()) GTEST_SKIP() << "not run: " << why;
  SetContractFloatingPointMode();
  XorShift64 random;
  const CudaLayerCase all =
      MakeLayerCase(ExpertKind::kOrdinary, {3584, 3072}, 20, 16, 33, &random);
  CardLayer card(all);
  for (const int tokens : {1, 2, 3, 4, 5, 8, 16, 33}) {
    CudaLayerCase c = all;
    c.num_tokens = tokens;
    const CudaLayerOutcome want = RunOnProcessor(BestKernel(), c);
    ASSERT_EQ(want.result.status, KernelStatus::kOk);
    for (const bool alone : {false, true}) {
      c.alone = alone;
      const CudaLayerOutcome got = card.Run(c);
      ASSERT_EQ(got.result.status, KernelStatus::kOk);
      ASSERT_TRUE(got.sums == want.sums) << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace deltafin
