// Sections 8 and 9 of docs/numerics.md: rounding of terms, limits and errors.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/fixed_point.h"
#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_operations.h"
#include "tests/unit/kernels/expert_runner.h"
#include "tests/unit/kernels/kernel_target_test.h"

namespace deltafin {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class FixedSumTest : public KernelTargetTest {
 protected:
  void SetUp() override {
    KernelTargetTest::SetUp();
    ops_ = FindExpertOperations(GetParam());
  }
  // Adds w * y to a run of 32 sums that starts at zero and has y at `lane`.
  bool Add(float w, float y, int lane = 7) {
    std::vector<float> values(32, 0.0f);
    values[lane] = y;
    sums_.assign(32, 0);
    return ops_->add_fixed(w, values.data(), 32, sums_.data());
  }

  const ExpertOperations* ops_ = nullptr;
  std::vector<int64_t> sums_;
};

TEST_P(FixedSumTest, AcceptsProductsJustBelowTheLimitInEveryLane) {
  const float below = std::nextafter(32768.0f, 0.0f);
  for (int lane = 0; lane < 32; ++lane) {
    ASSERT_TRUE(Add(1.0f, below, lane)) << lane;
    EXPECT_EQ(sums_[lane], (int64_t{1} << 55) - (int64_t{1} << 31));
    ASSERT_TRUE(Add(-1.0f, below, lane)) << lane;
    EXPECT_EQ(sums_[lane], -(int64_t{1} << 55) + (int64_t{1} << 31));
  }
}

TEST_P(FixedSumTest, RefusesTheLimitAndWhatIsNotFiniteInEveryLane) {
  for (int lane = 0; lane < 32; ++lane) {
    EXPECT_FALSE(Add(1.0f, 32768.0f, lane)) << lane;
    EXPECT_FALSE(Add(1.0f, -32768.0f, lane)) << lane;
    EXPECT_FALSE(Add(0x1p-100f, 0x1p115f, lane)) << lane;
    EXPECT_FALSE(Add(1.0f, kInfinity, lane)) << lane;
    EXPECT_FALSE(Add(1.0f, kNan, lane)) << lane;
    EXPECT_FALSE(Add(0.0f, kInfinity, lane)) << lane;
    EXPECT_FALSE(Add(kNan, 1.0f, lane)) << lane;
    EXPECT_FALSE(Add(kInfinity, 1.0f, lane)) << lane;
  }
}

TEST_P(FixedSumTest, RoundsTiesToEven) {
  const struct {
    float y;
    int64_t term;
  } ties[] = {{0x1p-41f, 0},  {0x3p-41f, 2},   {0x5p-41f, 2},  {0x7p-41f, 4},
              {-0x1p-41f, 0}, {-0x3p-41f, -2}, {-0x5p-41f, -2}};
  for (const auto& tie : ties) {
    ASSERT_TRUE(Add(1.0f, tie.y));
    EXPECT_EQ(sums_[7], tie.term) << tie.y;
  }
  ASSERT_TRUE(Add(1.0f, std::nextafter(0x1p-41f, 1.0f)));
  EXPECT_EQ(sums_[7], 1);
}

TEST_P(FixedSumTest, RoundsTheExactProductOnce) {
  // 48 significant bits: (2^24 - 1)^2 * 2^-34 * 2^-40 ... kept to 2^-40.
  const float w = 0x1.fffffep-1f;
  const float y = 0x1.fffffep+14f;
  ASSERT_TRUE(Add(w, y));
  const double exact = static_cast<double>(w) * y;
  EXPECT_EQ(sums_[7], std::llrint(exact * 0x1p40));
  EXPECT_EQ(sums_[7], (int64_t{1} << 55) - (int64_t{1} << 32) + 128);
}

TEST_P(FixedSumTest, AddsTheMostTermsOfTheLargestSizeExactly) {
  const float below = std::nextafter(32768.0f, 0.0f);
  const std::vector<float> y(32, below);
  std::vector<int64_t> sums(32, 0);
  for (int i = 0; i < kMaxFixedTerms; ++i) {
    ASSERT_TRUE(ops_->add_fixed(1.0f, y.data(), 32, sums.data()));
  }
  const int64_t term = (int64_t{1} << 55) - (int64_t{1} << 31);
  for (const int64_t sum : sums) {
    EXPECT_EQ(static_cast<uint64_t>(sum),
              static_cast<uint64_t>(term) * kMaxFixedTerms);
    EXPECT_GT(sum, 0);
  }
}

DELTAFIN_FOR_EACH_TARGET(FixedSumTest);

class ExpertErrorTest : public KernelTargetTest {
 protected:
  ExpertErrorTest() {
    XorShift64 random;
    c_.shape = {96, 288};
    c_.num_tokens = 21;
    FillExpertCase(ExpertKind::kOrdinary, &random, &c_);
  }
  RunResult Run() { return RunSlices(*target_, c_, 0, c_.num_tokens, {0, 2}); }
  float& X(int token, int column) { return c_.x[token * 96 + column]; }

  ExpertCase c_;
};

TEST_P(ExpertErrorTest, ReportsTheLowestTokenWithInfOrNan) {
  X(20, 95) = kNan;
  X(13, 40) = kInfinity;
  const RunResult result = Run();
  EXPECT_EQ(result.status, KernelStatus::kNotFinite);
  EXPECT_EQ(result.bad_token, 13);
}

TEST_P(ExpertErrorTest, ReportsTheLowestTokenWhoseTermOverflows) {
  c_.weights[19] = 0x1p100f;
  RunResult result = Run();
  EXPECT_EQ(result.status, KernelStatus::kOverflow);
  EXPECT_EQ(result.bad_token, 19);
  c_.weights[17] = kNan;
  c_.weights[2] = -0x1p120f;
  result = Run();
  EXPECT_EQ(result.status, KernelStatus::kOverflow);
  EXPECT_EQ(result.bad_token, 2);
}

TEST_P(ExpertErrorTest, ReportsAnOverflowOfTheGateThoughTanhWouldHideIt) {
  for (const int tensor : {1, 3}) {  // gate, up
    ExpertCase saved = c_;
    for (uint8_t& scale : c_.tensors[tensor]) scale = 200;
    X(4, 0) = 0x1p127f;
    const RunResult result = Run();
    EXPECT_EQ(result.status, KernelStatus::kOverflow);
    EXPECT_EQ(result.bad_token, 4);
    c_ = saved;
  }
}

TEST_P(ExpertErrorTest, AcceptsCallersThatDoNotAskForTheToken) {
  const float row[32] = {kNan};
  const float* rows[] = {row};
  alignas(64) uint8_t out[256];
  ASSERT_LE(target_->expert.prepared_bytes(32, 1), sizeof(out));
  EXPECT_EQ(target_->expert.prepare(rows, 32, 1, out, nullptr),
            KernelStatus::kNotFinite);
}

DELTAFIN_FOR_EACH_TARGET(ExpertErrorTest);

}  // namespace
}  // namespace deltafin
