// Where values lie for the card's products, on the processor.
#include "kernels/cuda/spine_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace deltafin::cuda {
namespace {

TEST(SpineTilesTest, ThreePartsOfBf16AreTheFloat) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-100, 100);
  for (int i = 0; i < 10000; ++i) {
    const float f = std::ldexp(uniform(random), i % 60 - 30);
    uint16_t parts[kSplitParts];
    SplitFloat(f, parts);
    double sum = 0;
    for (const uint16_t part : parts) sum += WidenBf16(part);
    EXPECT_EQ(sum, double{f});
  }
}

TEST(SpineTilesTest, ThreeSignedBytesAreTheInteger) {
  for (int32_t x = -5592405; x <= 5592405; x += 97) {
    int8_t limbs[kLimbParts];
    SplitInteger(x, limbs);
    EXPECT_EQ(limbs[0] + 256 * limbs[1] + 65536 * limbs[2], x);
  }
}

TEST(SpineTilesTest, IntegersOfAChunkKeepTwentyTwoBits) {
  for (const float largest : {1.0f, 1.333f, 1.334f, 1e-20f, 3e38f}) {
    const uint32_t exponent = LimbExponent(BitsOf(largest));
    const double x = std::nearbyint(double{largest} * LimbInverse(exponent));
    EXPECT_LE(x, 5592405);
    EXPECT_GE(x, 2796202);
    EXPECT_NEAR(x * LimbFactor(exponent) / largest, 1, 1e-6);
  }
}

TEST(SpineTilesTest, AChunkWithInfinityMultipliesByNaN) {
  for (const float bad : {INFINITY, NAN}) {
    const uint32_t bits = BitsOf(bad) & 0x7fffffff;
    EXPECT_TRUE(std::isnan(LimbFactor(LimbExponent(bits))));
  }
  EXPECT_TRUE(std::isfinite(LimbFactor(LimbExponent(0x7f7fffff))));
}

TEST(SpineTilesTest, HalvesBeginFarBelowTheLargestOfFp16) {
  for (const float largest : {1.0f, 1.999f, 6e-20f, 3e34f, 0x1p-88f}) {
    const int e = HalvesExponent(BitsOf(largest));
    const float scaled = largest * PowerOfTwo(-e);
    EXPECT_GE(scaled, 4096) << largest;
    EXPECT_LT(scaled, 65504) << largest;
    EXPECT_EQ(scaled * PowerOfTwo(e), largest);
  }
  EXPECT_EQ(HalvesExponent(0), kLeastHalvesExponent);
  EXPECT_EQ(HalvesExponent(BitsOf(3e38f)), kMostHalvesExponent);
  EXPECT_EQ(HalvesExponent(BitsOf(INFINITY)), 0);
  EXPECT_EQ(HalvesExponent(BitsOf(NAN) & 0x7fffffff), 0);
}

TEST(SpineTilesTest, PowersOfTwoEndAtTheLeastNormalFloat) {
  for (const int e : {-126, -1, 0, 17, 127}) {
    EXPECT_EQ(PowerOfTwo(e), std::ldexp(1.0f, e));
  }
  EXPECT_EQ(PowerOfTwo(-300), 0x1p-126f);
}

// Lane (token, c) takes 16 bytes: 8 bf16 of columns 8c.. of every 32.
TEST(SpineTilesTest, SplitActivationsLieInTheOrderOfTheLanes) {
  std::set<size_t> seen;
  for (int chunk = 0; chunk < 2; ++chunk) {
    for (int part = 0; part < kSplitParts; ++part) {
      for (int token = 0; token < kSpineTokens; ++token) {
        for (int q = 0; q < 32; ++q) {
          const size_t at = SplitOffset(chunk, part, token, q);
          EXPECT_TRUE(seen.insert(at).second);
          EXPECT_LT(at, SplitBytes(2));
          const int column = 128 * chunk + 4 * q;
          const int lane = 4 * token + column % 32 / 8;
          EXPECT_EQ(
              at, (size_t(column / 32 * kSplitParts + part) * 32 + lane) * 16 +
                      column % 8 * 2);
        }
      }
    }
  }
  EXPECT_EQ(8 * seen.size(), SplitBytes(2));
}

// Lane (token, c) takes 16 bytes: columns 16c.. of every 64.
TEST(SpineTilesTest, LimbsLieInTheOrderOfTheLanes) {
  std::set<size_t> seen;
  for (int limb = 0; limb < kLimbParts; ++limb) {
    for (int token = 0; token < kSpineTokens; ++token) {
      for (int q = 0; q < 32; ++q) {
        const size_t at = LimbOffset(0, limb, token, q);
        EXPECT_TRUE(seen.insert(at).second);
        const int column = 4 * q;
        const int lane = 4 * token + column % 64 / 16;
        EXPECT_EQ(at, (size_t(2 * limb + column / 64) * 32 + lane) * 16 +
                          column % 16);
      }
    }
  }
  EXPECT_EQ(4 * seen.size(), LimbBytes(1));
}

// Walks along the line of stages as the blocks of a grid do and counts what
// each row block got.
TEST(SpineTilesTest, EveryStageOfARowBlockIsInOneOfItsParts) {
  const int blocks_of[] = {3, 1, 5}, stages_of[] = {7, 3, 1};
  for (int per_block = 1; per_block < 40; ++per_block) {
    std::vector<float> slots(100 * size_t{kSpineTokens} * kSpineBlockRows);
    int position = 0, row_block = 0;
    for (int m = 0; m < 3; ++m) {
      for (int b = 0; b < blocks_of[m]; ++b, ++row_block) {
        for (int s = 0; s < stages_of[m]; ++s, ++position) {
          const int slot = ProductSlot(row_block, position / per_block);
          slots[(slot * kSpineTokens + 2) * kSpineBlockRows + 9] += 1;
        }
      }
    }
    int first_block = 0, first_stage = 0;
    for (int m = 0; m < 3; ++m) {
      const ProductView view = {slots.data(), first_block, first_stage,
                                stages_of[m], per_block};
      for (int b = 0; b < blocks_of[m]; ++b) {
        EXPECT_EQ(ProductValue(view, 2, b * kSpineBlockRows + 9), stages_of[m]);
      }
      first_block += blocks_of[m];
      first_stage += blocks_of[m] * stages_of[m];
    }
  }
}

}  // namespace
}  // namespace deltafin::cuda
