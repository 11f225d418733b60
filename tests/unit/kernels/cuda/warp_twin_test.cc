// The card's arithmetic on the processor against the scalar definition: every
// code, scale and limit, on machines without a card too.
#include "tests/unit/kernels/cuda/warp_twin.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "kernels/cuda/scalar_math.h"
#include "kernels/mxfp4.h"
#include "tests/unit/kernels/case_generator.h"
#include "tests/unit/kernels/expert_definition.h"

namespace deltafin {
namespace {

TEST(GroupCodesTest, DecodesEveryCodeInEveryPlace) {
  for (int place = 0; place < 4; ++place) {
    for (uint32_t code = 0; code < 16; ++code) {
      const uint32_t nibbles = 0x5a5a & ~(15u << 4 * place);
      const cuda::SplitCodes codes =
          cuda::ShiftedCodes(nibbles | code << 4 * place, {});
      EXPECT_EQ(codes.positive & codes.negative, 0u);
      const uint32_t bytes = codes.positive | codes.negative;
      EXPECT_EQ(bytes >> 8 * place & 255, kShiftedCode[code]);
      EXPECT_EQ(bytes >> 8 * ((place + 1) % 4) & 255,
                kShiftedCode[0x5a5a >> 4 * ((place + 1) % 4) & 15]);
    }
  }
}

TEST(GroupCodesTest, ClampsEveryScaleUnderEveryExponent) {
  for (int e = -116; e <= 106; ++e) {
    const cuda::ActivationHead head = cuda::HeadOf(e + kExponentOffset, 0);
    for (uint32_t s = 0; s < 255; ++s) {
      float factor[4];
      cuda::GroupFactors(s | (254 - s) << 8 | s << 16 | (s / 2) << 24,
                         head.fields, factor);
      const auto expected = [&](int scale) {
        const int field = std::clamp(scale + e - 1, 0, 255);
        return static_cast<uint32_t>(field) << 23;
      };
      ASSERT_EQ(std::bit_cast<uint32_t>(factor[0]), expected(s));
      ASSERT_EQ(std::bit_cast<uint32_t>(factor[1]), expected(254 - s));
      ASSERT_EQ(std::bit_cast<uint32_t>(factor[2]), expected(s));
      ASSERT_EQ(std::bit_cast<uint32_t>(factor[3]), expected(s / 2));
    }
  }
}

TEST(GroupCodesTest, SplitsIntegersExactly) {
  for (int32_t x = -5592405; x <= 5592405; x += 173) {
    int8_t limb[3];
    cuda::SplitLimbs(x, limb);
    ASSERT_EQ(limb[0] + 256 * limb[1] + 65536 * limb[2], x);
  }
  int8_t limb[3];
  cuda::SplitLimbs(5592405, limb);
  EXPECT_EQ(limb[0] + 256 * limb[1] + 65536 * limb[2], 5592405);
}

TEST(ScalarMathTest, GivesTheDefinedSitu) {
  XorShift64 random;
  for (int i = 0; i < 20000; ++i) {
    const float gate =
        std::ldexp(static_cast<float>(random.Below(1 << 24) - (1 << 23)),
                   random.Below(40) - 40);
    const float up =
        std::ldexp(static_cast<float>(random.Below(1 << 24) - (1 << 23)),
                   random.Below(40) - 40);
    ASSERT_EQ(std::bit_cast<uint32_t>(cuda::Situ(gate, up, SituParams{})),
              std::bit_cast<uint32_t>(DefineSitu(gate, up, SituParams{})))
        << gate << " " << up;
  }
}

// A matrix of 96 rows and its product with four tokens.
class WarpTwinTest : public ::testing::Test {
 protected:
  static constexpr int kRows = 96;

  explicit WarpTwinTest(int cols = 160) : cols_(cols) {
    packed_.resize(kRows * cols_ / 2);
    scale_.resize(kRows * cols_ / 32);
    for (uint8_t& b : packed_) b = static_cast<uint8_t>(random_.Next());
    for (uint8_t& s : scale_) s = static_cast<uint8_t>(random_.Below(255));
    tokens_.assign(4, std::vector<float>(cols_));
    for (auto& x : tokens_) {
      for (float& v : x) v = Value();
    }
  }

  float Value() {
    return std::ldexp(static_cast<float>(random_.Below(1 << 24) - (1 << 23)),
                      random_.Below(30) - 30);
  }

  void ExpectTheDefinedBits(int num_tokens) {
    const ReleasedMatrix matrix = {packed_.data(), scale_.data(), kRows, cols_};
    const std::vector<uint8_t> tiles = DefineTiles(matrix);
    TwinTokens prepared;
    for (int t = 0; t < num_tokens; ++t) prepared.Add(tokens_[t]);
    for (int t = 0; t < num_tokens; ++t) {
      QuantizedRow row;
      ASSERT_TRUE(DefineQuantized(tokens_[t].data(), cols_, &row));
      float expected[kRows];
      DefineProduct(matrix, row, 0, expected);
      for (int strip = 0; strip < kRows / 32; ++strip) {
        const std::vector<float> y =
            MultiplyStripTwin(tiles.data(), kRows, strip, prepared);
        for (int r = 0; r < 32; ++r) {
          const float want = expected[strip * 32 + r];
          const float got = y[r * 4 + t];
          ASSERT_TRUE(std::bit_cast<uint32_t>(got) ==
                          std::bit_cast<uint32_t>(want) ||
                      (std::isnan(got) && std::isnan(want)))
              << "row " << strip * 32 + r << " token " << t << ": " << got
              << ", defined " << want;
        }
      }
    }
  }

  XorShift64 random_;
  int cols_;
  std::vector<uint8_t> packed_;
  std::vector<uint8_t> scale_;
  std::vector<std::vector<float>> tokens_;
};

TEST_F(WarpTwinTest, GivesTheDefinedBitsForOneToFourTokens) {
  for (int tokens = 1; tokens <= 4; ++tokens) ExpectTheDefinedBits(tokens);
}

TEST_F(WarpTwinTest, GivesTheDefinedBitsAtTheLargestSums) {
  for (const uint8_t code : {0x77, 0xff, 0x7f}) {
    for (uint8_t& b : packed_) b = code;
    for (const uint32_t bits : {0x3faaaaaau, 0x3faaaaabu, 0xbfaaaaaau}) {
      for (auto& x : tokens_) x.assign(cols_, std::bit_cast<float>(bits));
      ExpectTheDefinedBits(4);
    }
  }
}

TEST_F(WarpTwinTest, GivesTheDefinedBitsWhereFactorsAreZeroOrInfinite) {
  for (const float size : {0x1p127f, 0x1p-120f, 0x1p-140f, 0.0f}) {
    for (auto& x : tokens_) {
      for (float& v : x) v = size * (1 + 0.25f * random_.Below(3));
      x[3] = -x[3];
    }
    ExpectTheDefinedBits(4);
  }
}

}  // namespace
}  // namespace deltafin
