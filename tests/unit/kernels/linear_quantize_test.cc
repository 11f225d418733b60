// int8 rows (docs/numerics.md section 5): one scale a row, nearest codes.
#include <gtest/gtest.h>

#include "kernels/linear_kernel.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {
namespace {

std::vector<uint16_t> Bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float v : values) {
    bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
  }
  return bits;
}

struct Quantized {
  KernelStatus status;
  float scale;
  std::vector<int> codes;
};

Quantized Quantize(const std::vector<uint16_t>& row) {
  Quantized result{KernelStatus::kOk, -1.0f, {}};
  std::vector<int8_t> q(row.size(), 99);
  result.status = QuantizeRowInt8(row.data(), static_cast<int>(row.size()),
                                  q.data(), &result.scale);
  result.codes.assign(q.begin(), q.end());
  return result;
}

TEST(LinearQuantizeTest, DividesByTheLargestMagnitudeOver127) {
  const Quantized r = Quantize(Bf16({127.0f, -127.0f, 0.0f, 64.0f, -1.0f}));
  EXPECT_EQ(r.status, KernelStatus::kOk);
  EXPECT_EQ(r.scale, 1.0f);
  EXPECT_EQ(r.codes, (std::vector<int>{127, -127, 0, 64, -1}));
}

TEST(LinearQuantizeTest, RoundsTiesToEven) {
  const Quantized r =
      Quantize(Bf16({127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 3.5f}));
  EXPECT_EQ(r.codes, (std::vector<int>{127, 0, 2, 2, 0, -2, -2, 4}));
}

TEST(LinearQuantizeTest, FollowsTheRealDivisionForRandomRows) {
  XorShift64 random;
  for (int n : {1, 7, 64, 129, 1000}) {
    const std::vector<uint16_t> row =
        Bf16(RandomFloats(&random, n, {100, 127}));
    const Quantized r = Quantize(row);
    float largest = 0;
    for (const uint16_t b : row) {
      largest =
          std::max(largest, std::fabs(std::bit_cast<float>(uint32_t{b} << 16)));
    }
    ASSERT_EQ(r.scale, largest / 127.0f);
    for (int i = 0; i < n; ++i) {
      const float w = std::bit_cast<float>(uint32_t{row[i]} << 16);
      ASSERT_EQ(r.codes[i], static_cast<int>(std::nearbyint(w / r.scale)));
    }
  }
}

TEST(LinearQuantizeTest, GivesARowOfZerosScaleZero) {
  const Quantized r = Quantize(Bf16({0.0f, -0.0f, 0.0f}));
  EXPECT_EQ(r.status, KernelStatus::kOk);
  EXPECT_EQ(r.scale, 0.0f);
  EXPECT_EQ(r.codes, (std::vector<int>{0, 0, 0}));
}

TEST(LinearQuantizeTest, RefusesInfAndNanAnywhereInTheRow) {
  for (const uint16_t bad : {0x7f80, 0xff80, 0x7fc0, 0xffff}) {
    for (const int at : {0, 13, 99}) {
      std::vector<uint16_t> row(100, 0x3f80);
      row[at] = bad;
      EXPECT_EQ(Quantize(row).status, KernelStatus::kNotFinite) << bad;
    }
  }
}

TEST(LinearQuantizeTest, RefusesAScaleBelowTheNormalFloats) {
  // The largest magnitude is normal, the scale is not.
  EXPECT_EQ(Quantize(Bf16({0x1p-120f})).status, KernelStatus::kOverflow);
  EXPECT_EQ(Quantize({0x0001}).status, KernelStatus::kOverflow);
  EXPECT_EQ(Quantize(Bf16({0x1p-119f})).status, KernelStatus::kOk);
}

TEST(LinearQuantizeTest, KeepsTheLargestFloatInRange) {
  const Quantized r = Quantize({0x7f7f, 0xff7f});
  EXPECT_EQ(r.status, KernelStatus::kOk);
  EXPECT_EQ(r.codes, (std::vector<int>{127, -127}));
}

}  // namespace
}  // namespace deltafin
