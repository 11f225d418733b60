// Section 2 of docs/numerics.md: every target against the scalar definition.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/activation_limbs.h"
#include "tests/unit/kernels/expert_definition.h"
#include "tests/unit/kernels/expert_operations.h"
#include "tests/unit/kernels/flush_to_zero.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/matvec_cases.h"

namespace deltafin {
namespace {

// Equal on x86-64 and ARM; the prototype of the contract gave the same.
constexpr uint64_t kSmallDigest = 0xc316f54876a43a65;

struct SmallCases {
  Digest digest;
  std::vector<MatvecCase> cases;
  SmallCases() {
    XorShift64 random;
    cases = MakeSmallMatvecCases(&random, &digest);
  }
};

const SmallCases& Small() {
  static const SmallCases cases;
  return cases;
}

// The same bits, or both not finite.
bool SameValue(float got, float want) {
  if (!std::isfinite(want)) return !std::isfinite(got);
  return std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(want);
}

// Tokens [first, first + count) of the case in one call.
void ExpectDefinedBits(const ExpertOperations& ops, const MatvecCase& c,
                       int first, int count) {
  std::vector<float> y;
  ASSERT_TRUE(MultiplyTiles(ops, c.tiles, c.rows, c.cols,
                            &c.x[size_t(first) * c.cols], count, &y));
  for (size_t i = 0; i < y.size(); ++i) {
    const float want = c.y[size_t(first) * c.rows + i];
    ASSERT_TRUE(SameValue(y[i], want))
        << c.kind << " [" << c.rows << ", " << c.cols << "], token "
        << first + i / c.rows << " of " << count << " in the call, row "
        << i % c.rows << ": " << y[i] << ", want " << want;
  }
}

class ExpertProductTest : public KernelTargetTest {
 protected:
  void SetUp() override {
    KernelTargetTest::SetUp();
    ops_ = FindExpertOperations(GetParam());
  }
  const ExpertOperations* ops_ = nullptr;
};

TEST_P(ExpertProductTest, GivesTheDefinedBitsForEveryBatchOfTokens) {
  for (const MatvecCase& c : Small().cases) {
    const bool thorough = c.num_tokens == 9 && c.rows < 300;
    for (int count = thorough ? 1 : c.num_tokens; count <= c.num_tokens;
         ++count) {
      ASSERT_NO_FATAL_FAILURE(ExpectDefinedBits(*ops_, c, 0, count));
    }
  }
}

TEST_P(ExpertProductTest, GivesTheDefinedBitsTokenByToken) {
  for (const MatvecCase& c : Small().cases) {
    for (int t = 0; t < c.num_tokens; ++t) {
      ASSERT_NO_FATAL_FAILURE(ExpectDefinedBits(*ops_, c, t, 1));
    }
  }
}

TEST_P(ExpertProductTest, DoesNotNoticeFlushToZero) {
  const std::vector<MatvecCase>& cases = Small().cases;  // made without it
  const FlushToZero on;
  for (const MatvecCase& c : cases) {
    ASSERT_NO_FATAL_FAILURE(ExpectDefinedBits(*ops_, c, 0, c.num_tokens));
  }
}

TEST_P(ExpertProductTest, ReachesTheLargestSumExactly) {
  // 32 products 12 * 5,592,405: S = 2,147,483,520 < 2^31.
  const std::vector<uint8_t> packed(16, 0x77), scale(1, 127);
  const std::vector<float> x(32, std::bit_cast<float>(0x3faaaaaau));
  std::vector<float> y;
  ASSERT_TRUE(MultiplyTiles(*ops_,
                            DefineTiles({packed.data(), scale.data(), 1, 32}),
                            1, 32, x.data(), 1, &y));
  // f32(2147483520) = 2^31 - 128; doubled weights and x = X 2^-22.
  EXPECT_EQ(y[0], 2147483520.0f * 0x1p-22f * 0.5f);
}

TEST_P(ExpertProductTest, RefusesInfAndNanWhereverTheyLie) {
  for (const uint32_t bits :
       {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffc12345u, 0x7f800001u}) {
    for (const int column : {0, 17, 31, 95}) {
      std::vector<float> x(96, 1.0f);
      std::vector<int32_t> out(3 * ops_->group_words);
      ASSERT_TRUE(ops_->quantize(x.data(), 96, 1, 0, out.data()));
      x[column] = std::bit_cast<float>(bits);
      EXPECT_FALSE(ops_->quantize(x.data(), 96, 1, 0, out.data()))
          << std::hex << bits << " at " << std::dec << column;
    }
  }
}

TEST_P(ExpertProductTest, FindsInfAndNanAmongResults) {
  std::vector<float> y(64, std::numeric_limits<float>::max());
  EXPECT_TRUE(ops_->all_finite(y.data(), 64));
  for (const int i : {0, 31, 63}) {
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> changed = y;
      changed[i] = bad;
      EXPECT_FALSE(ops_->all_finite(changed.data(), 64)) << bad << " at " << i;
    }
  }
}

DELTAFIN_FOR_EACH_TARGET(ExpertProductTest);

TEST(ExpertDefinitionTest, GivesTheStoredDigestOnEveryMachine) {
  EXPECT_EQ(Small().digest.value(), kSmallDigest)
      << std::hex << Small().digest.value();
}

}  // namespace
}  // namespace deltafin
