// The full model's shapes against the scalar definition: too long for the
// ordinary run of a checked build.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_operations.h"
#include "tests/unit/kernels/expert_runner.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/matvec_cases.h"

namespace deltafin {
namespace {

// Equal on x86-64 and ARM; the prototype of the contract gave the same.
constexpr uint64_t kProductDigest = 0x3574b439d2664460;
constexpr uint64_t kExpertDigest = 0x859384a9a787e3a4;

struct Products {
  Digest digest;
  std::vector<MatvecCase> cases;
  Products() {
    XorShift64 random;
    MakeSmallMatvecCases(&random, &digest);
    cases = MakeLargeMatvecCases(&random, &digest);
  }
};

const Products& LargeProducts() {
  static const Products products;
  return products;
}

struct FullExpert {
  Digest digest;
  ExpertCase c;
  FullExpert() {
    XorShift64 random;
    MakeSmallExpertCases(&random, &digest);
    c = MakeFullSizeExpertCase(&random, &digest);
  }
};

const FullExpert& Expert() {
  static const FullExpert expert;
  return expert;
}

class FullSizeTest : public KernelTargetTest {};

TEST_P(FullSizeTest, GivesTheDefinedBitsOfRealProducts) {
  const ExpertOperations& ops = *FindExpertOperations(GetParam());
  for (const MatvecCase& c : LargeProducts().cases) {
    std::vector<float> y;
    ASSERT_TRUE(MultiplyTiles(ops, c.tiles, c.rows, c.cols, c.x.data(),
                              c.num_tokens, &y));
    ASSERT_EQ(std::memcmp(y.data(), c.y.data(), y.size() * sizeof(float)), 0)
        << c.rows << " rows, " << c.num_tokens << " tokens";
  }
}

TEST_P(FullSizeTest, GivesTheDefinedSumsForEveryCutOfARealExpert) {
  const ExpertCase& c = Expert().c;
  XorShift64 shuffle(99);
  for (const int num_runs : {1, 2, 3, 4, 6, 12}) {
    const RunResult result =
        RunCut(*target_, c, c.num_tokens, num_runs, &shuffle);
    ASSERT_EQ(result.status, KernelStatus::kOk);
    ASSERT_EQ(result.sums, c.sums) << num_runs << " runs";
  }
}

DELTAFIN_FOR_EACH_TARGET(FullSizeTest);

TEST(FullSizeDefinitionTest, GivesTheStoredDigestsOnEveryMachine) {
  EXPECT_EQ(LargeProducts().digest.value(), kProductDigest);
  EXPECT_EQ(Expert().digest.value(), kExpertDigest);
}

}  // namespace
}  // namespace deltafin
