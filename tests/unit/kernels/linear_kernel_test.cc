// Sections 4 and 5 of docs/numerics.md: every target against the definition on
// released rows.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/kernels/flush_to_zero.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_definition.h"

namespace deltafin {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kBf16, WeightFormat::kF32,
                                     WeightFormat::kInt8};

// Equal on x86-64 and ARM.
constexpr uint64_t kDigest = 0x46f645467f150648;

struct Shape {
  int rows;
  int cols;
};

constexpr Shape kShapes[] = {{1, 1},    {1, 63},   {31, 64},   {32, 65},
                             {33, 127}, {32, 128}, {64, 129},  {255, 160},
                             {256, 96}, {257, 64}, {300, 257}, {96, 1000}};

const char* Name(WeightFormat format) {
  return format == WeightFormat::kBf16  ? "bf16"
         : format == WeightFormat::kF32 ? "f32"
                                        : "int8";
}

class LinearKernelTest : public KernelTargetTest {
 protected:
  // One call over all tokens gives the defined bits and status kOk, or
  // kOverflow where some value is not finite.
  void ExpectDefinedBits(const LinearCase& c, const std::vector<float>& x,
                         int num_tokens) {
    const std::vector<float> want = DefinedProduct(c, x, num_tokens);
    KernelStatus status;
    const std::vector<float> got =
        KernelProduct(target_->linear, c, x, num_tokens, &status);
    const bool finite = std::all_of(want.begin(), want.end(),
                                    [](float v) { return std::isfinite(v); });
    ASSERT_EQ(status, finite ? KernelStatus::kOk : KernelStatus::kOverflow);
    ASSERT_TRUE(SameFloats(got, want))
        << Name(c.format) << " [" << c.rows << ", " << c.cols << "], T "
        << num_tokens;
  }

  XorShift64 random_;
};

TEST_P(LinearKernelTest, GivesTheDefinedBitsForEveryShape) {
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      const LinearCase c =
          MakeLinearCase(format, shape.rows, shape.cols, kOrdinary, &random_);
      for (const int tokens : {1, 3}) {
        ExpectDefinedBits(
            c, RandomFloats(&random_, size_t(tokens) * shape.cols), tokens);
      }
    }
  }
}

TEST_P(LinearKernelTest, GivesTheDefinedBitsForEveryNumberOfTokens) {
  for (const WeightFormat format : kFormats) {
    const LinearCase c = MakeLinearCase(format, 65, 200, kOrdinary, &random_);
    for (const int tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 31, 32, 33, 70}) {
      ExpectDefinedBits(c, RandomFloats(&random_, size_t(tokens) * c.cols),
                        tokens);
    }
  }
}

TEST_P(LinearKernelTest, GivesTheDefinedBitsForExtremeValues) {
  for (const WeightFormat format : kFormats) {
    for (const FloatRange w : {kTiny, kAnyFinite, kHuge, kOrdinary}) {
      const LinearCase c = MakeLinearCase(format, 40, 193, w, &random_);
      for (const FloatRange x : {kTiny, kAnyFinite, kHuge}) {
        ExpectDefinedBits(c, RandomFloats(&random_, size_t{3} * c.cols, x), 3);
      }
    }
  }
}

TEST_P(LinearKernelTest, GivesTheDefinedBitsForZerosOfBothSigns) {
  for (const WeightFormat format : kFormats) {
    const LinearCase c = MakeLinearCase(format, 33, 130, kOrdinary, &random_);
    std::vector<float> x(size_t{2} * c.cols, -0.0f);
    x[5] = 0.0f;
    ExpectDefinedBits(c, x, 2);
  }
}

TEST_P(LinearKernelTest, RoundsAnInt8SumOnceWithTiesToEven) {
  LinearCase c;
  c.format = WeightFormat::kInt8;
  c.rows = 1;
  c.cols = 2;
  c.weights = {3, 1};
  c.row_scale = {1.0f};
  PackLinearCase(&c);
  // 3 * 5592405 = 2^24 - 1, so the sums lie half-way between floats.
  const struct {
    float x;
    float want;
  } cases[] = {{2.0f, 0x1p24f}, {4.0f, 16777220.0f}, {3.0f, 16777218.0f}};
  for (const auto& [x, want] : cases) {
    KernelStatus status;
    const auto y =
        KernelProduct(target_->linear, c, {5592405.0f, x}, 1, &status);
    EXPECT_EQ(y[0], want) << x;
  }
}

TEST_P(LinearKernelTest, GivesATokenTheSameBitsInAnyCompany) {
  for (const WeightFormat format : kFormats) {
    const LinearCase c = MakeLinearCase(format, 70, 300, kOrdinary, &random_);
    const auto x = RandomFloats(&random_, size_t{17} * c.cols);
    KernelStatus status;
    const auto together = KernelProduct(target_->linear, c, x, 17, &status);
    for (int t = 0; t < 17; ++t) {
      const std::vector<float> row(x.begin() + t * c.cols,
                                   x.begin() + (t + 1) * c.cols);
      const std::vector<float> want(together.begin() + t * c.rows,
                                    together.begin() + (t + 1) * c.rows);
      ASSERT_TRUE(
          SameFloats(KernelProduct(target_->linear, c, row, 1, &status), want))
          << Name(format) << " token " << t;
    }
  }
}

TEST_P(LinearKernelTest, WritesTheRowsAskedForAndNothingElse) {
  constexpr float kUntouched = 12345.0f;
  constexpr int kTokens = 3;
  for (const WeightFormat format : kFormats) {
    const LinearCase c = MakeLinearCase(format, 600, 70, kOrdinary, &random_);
    const size_t ldx = 75, ldy = 610;
    const auto dense = RandomFloats(&random_, size_t{kTokens} * c.cols);
    std::vector<float> x(kTokens * ldx, NAN);
    for (int t = 0; t < kTokens; ++t) {
      std::copy_n(&dense[t * c.cols], c.cols, &x[t * ldx]);
    }
    const auto want = DefinedProduct(c, dense, kTokens);
    AlignedBytes prepared(
        target_->linear.prepared_bytes(format, c.cols, kTokens));
    ASSERT_EQ(target_->linear.prepare(format, x.data(), ldx, kTokens, c.cols,
                                      prepared.get()),
              KernelStatus::kOk);
    for (const auto& [begin, end] :
         {std::pair{0, 256}, {256, 512}, {512, 600}, {256, 600}}) {
      std::vector<float> y(kTokens * ldy, kUntouched);
      ASSERT_EQ(target_->linear.multiply(c.view(), prepared.get(), kTokens,
                                         begin, end, y.data(), ldy),
                KernelStatus::kOk);
      for (size_t i = 0; i < y.size(); ++i) {
        const int row = static_cast<int>(i % ldy);
        const bool asked = begin <= row && row < end;
        ASSERT_TRUE(
            SameBits(y[i], asked ? want[i / ldy * c.rows + row] : kUntouched))
            << Name(format) << " rows " << begin << ".." << end << ", row "
            << row;
      }
    }
  }
}

TEST_P(LinearKernelTest, RefusesInt8ActivationsThatAreNotFinite) {
  const LinearCase c =
      MakeLinearCase(WeightFormat::kInt8, 32, 200, kOrdinary, &random_);
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (const int at : {0, 127, 128, 199, 200, 399}) {
      auto x = RandomFloats(&random_, size_t{2} * c.cols);
      x[at] = bad;
      KernelStatus status;
      KernelProduct(target_->linear, c, x, 2, &status);
      EXPECT_EQ(status, KernelStatus::kNotFinite) << bad << " at " << at;
    }
  }
}

TEST_P(LinearKernelTest, ReportsOverflowForAnyRowOfAnyToken) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kF32}) {
    for (const float bad : {INFINITY, NAN, 0x1.8p127f}) {
      for (const int row : {0, 31, 32, 258}) {
        LinearCase c = MakeLinearCase(format, 259, 70, {1, 100}, &random_);
        c.weights[size_t(row) * c.cols + 69] = 8.0f;
        PackLinearCase(&c);
        auto x = RandomFloats(&random_, size_t{2} * c.cols, {1, 100});
        KernelStatus status;
        KernelProduct(target_->linear, c, x, 2, &status);
        ASSERT_EQ(status, KernelStatus::kOk);
        x.back() = bad;
        KernelProduct(target_->linear, c, x, 2, &status);
        EXPECT_EQ(status, KernelStatus::kOverflow)
            << Name(format) << " " << bad << " row " << row;
      }
    }
  }
}

TEST_P(LinearKernelTest, ReportsOverflowOfTheInt8RowScale) {
  LinearCase c =
      MakeLinearCase(WeightFormat::kInt8, 33, 10, kOrdinary, &random_);
  c.row_scale[32] = 0x1p120f;
  for (float& w : c.weights) w = 1.0f;
  PackLinearCase(&c);
  KernelStatus status;
  KernelProduct(target_->linear, c, std::vector<float>(10, 256.0f), 1, &status);
  EXPECT_EQ(status, KernelStatus::kOverflow);
  KernelProduct(target_->linear, c, std::vector<float>(10, 1.0f), 1, &status);
  EXPECT_EQ(status, KernelStatus::kOk);
}

TEST_P(LinearKernelTest, DoesNotNoticeFlushToZeroInInt8Sums) {
  const LinearCase c =
      MakeLinearCase(WeightFormat::kInt8, 40, 300, kOrdinary, &random_);
  for (const FloatRange range : {kTiny, kAnyFinite, kOrdinary}) {
    auto x = RandomFloats(&random_, c.cols, range);
    x[0] = 1.0f;  // keeps the row's own scaling normal
    const auto want = DefinedProduct(c, x, 1);
    KernelStatus status;
    std::vector<float> got;
    {
      const FlushToZero flush;
      got = KernelProduct(target_->linear, c, x, 1, &status);
    }
    EXPECT_TRUE(SameFloats(got, want));
  }
}

TEST_P(LinearKernelTest, GivesTheDefinedBitsForAFullWidthBlock) {
  for (const WeightFormat format : kFormats) {
    const LinearCase c = MakeLinearCase(format, 288, 7168, kOrdinary, &random_);
    ExpectDefinedBits(c, RandomFloats(&random_, size_t{2} * c.cols), 2);
  }
}

DELTAFIN_FOR_EACH_TARGET(LinearKernelTest);

TEST(LinearDefinitionTest, GivesTheStoredDigestOnEveryMachine) {
  SetContractFloatingPointMode();
  XorShift64 random;
  Digest digest;
  for (const WeightFormat format : kFormats) {
    for (const Shape& shape : kShapes) {
      const LinearCase c =
          MakeLinearCase(format, shape.rows, shape.cols, kOrdinary, &random);
      const auto x = RandomFloats(&random, size_t{2} * shape.cols);
      const auto y = DefinedProduct(c, x, 2);
      digest.Add(y.data(), y.size() * sizeof(float));
      digest.Add(c.tiles.data(), c.tiles.size() * sizeof(uint32_t));
    }
  }
  EXPECT_EQ(digest.value(), kDigest) << std::hex << digest.value();
}

}  // namespace
}  // namespace deltafin
