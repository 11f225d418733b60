// The MXFP4 fixtures of tests/golden/ops through every target.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/testing/golden_file.h"
#include "tests/unit/kernels/expert_definition.h"
#include "tests/unit/kernels/expert_operations.h"
#include "tests/unit/kernels/expert_runner.h"
#include "tests/unit/kernels/kernel_target_test.h"

namespace deltafin {
namespace {

using testing::OpenGoldenOperator;

TEST(GoldenBytesTest, DecodeUnderEveryScale) {
  const auto file = OpenGoldenOperator("mxfp4_bytes");
  const auto packed = file.Get<uint8_t>("packed");
  const auto scale = file.Get<uint8_t>("scale");
  const auto want = file.Get<float>("f32.out");
  ASSERT_EQ(want.size(), scale.size() * 512);
  for (size_t i = 0; i < want.size(); ++i) {
    const int byte = packed[i % 512 / 2];
    const float got =
        DecodeMxfp4(i % 2 == 0 ? byte & 15 : byte >> 4, scale[i / 512]);
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got)) << i;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want[i]))
          << i;
    }
  }
}

TEST(GoldenMatvecTest, DecodesTheWeightsExactly) {
  const auto file = OpenGoldenOperator("mxfp4_matvec");
  const auto packed = file.Get<uint8_t>("packed");
  const auto scale = file.Get<uint8_t>("scale");
  const auto want = file.Get<double>("f64.w");
  for (size_t i = 0; i < want.size(); ++i) {
    const int byte = packed[i / 2];
    EXPECT_EQ(DecodeMxfp4(i % 2 == 0 ? byte & 15 : byte >> 4, scale[i / 32]),
              want[i]);
  }
}

// |got - want| <= 1e-5 of the largest |want|.
void ExpectClose(const std::vector<double>& got,
                 const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], 1e-5 * largest) << i;
  }
}

// Unpadded sums as values.
std::vector<double> Values(const RunResult& result) {
  std::vector<double> values;
  for (const int64_t sum : result.sums) {
    values.push_back(static_cast<double>(sum) * 0x1p-40);
  }
  return values;
}

class GoldenExpertTest : public KernelTargetTest {};

TEST_P(GoldenExpertTest, MultipliesTheMatrix) {
  const auto file = OpenGoldenOperator("mxfp4_matvec");
  const auto packed = file.Get<uint8_t>("packed");
  const auto scale = file.Get<uint8_t>("scale");
  std::vector<float> y;
  ASSERT_TRUE(MultiplyTiles(*FindExpertOperations(GetParam()),
                            DefineTiles({packed.data(), scale.data(), 6, 96}),
                            6, 96, file.Get<float>("x").data(), 1, &y));
  ExpectClose({y.begin(), y.end()}, file.Get<double>("f64.y"));
}

TEST_P(GoldenExpertTest, RunsTheSmallExpert) {
  const auto file = OpenGoldenOperator("expert_small");
  ExpertCase c;
  c.shape = {64, 96};
  c.num_tokens = 3;
  const char* const names[] = {"w1.weight_packed", "w1.weight_scale",
                               "w3.weight_packed", "w3.weight_scale",
                               "w2.weight_packed", "w2.weight_scale"};
  for (int i = 0; i < 6; ++i) c.tensors[i] = file.Get<uint8_t>(names[i]);
  c.x = file.Get<float>("x");
  c.weights.assign(3, 1.0f);
  const RunResult result = RunSlices(*target_, c, 0, 3, {0, 1});
  ASSERT_EQ(result.status, KernelStatus::kOk);
  ExpectClose(Values(result), file.Get<double>("f64.y"));
}

uint64_t SplitMix64(uint64_t seed, uint64_t n) {
  uint64_t z = seed + n * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

// The generated expert: w1, w2, w3, each packed then scales.
void FillFullExpert(const testing::GoldenFile& file, ExpertCase* c) {
  const auto seed = static_cast<uint64_t>(file.Get<int64_t>("seed")[0]);
  std::vector<uint8_t> blob(c->shape.payload_bytes());
  for (size_t i = 0; i < blob.size(); ++i) {
    blob[i] =
        static_cast<uint8_t>(SplitMix64(seed, i / 8 + 1) >> (8 * (i % 8)));
  }
  const size_t values = size_t{3584} * 3072;
  const uint8_t* at = blob.data();
  for (const int i : {0, 1, 4, 5, 2, 3}) {
    const bool scales = i % 2 == 1;
    c->tensors[i].assign(at, at + (scales ? values / 32 : values / 2));
    at += c->tensors[i].size();
    if (!scales) continue;
    for (uint8_t& b : c->tensors[i]) b = static_cast<uint8_t>(117 + b % 6);
  }
}

TEST_P(GoldenExpertTest, RunsTheExpertOfTheReleasedSize) {
  const auto file = OpenGoldenOperator("expert_full");
  ExpertCase c;
  c.shape = {3584, 3072};
  c.num_tokens = 2;
  FillFullExpert(file, &c);
  const auto first = file.Get<uint8_t>("first_64_bytes");
  const auto last = file.Get<uint8_t>("last_64_bytes");
  ASSERT_TRUE(std::equal(first.begin(), first.end(), c.tensors[0].begin()));
  ASSERT_TRUE(std::equal(last.begin(), last.end(), c.tensors[3].end() - 64));
  c.x = file.Get<float>("x");
  c.weights.assign(2, 1.0f);
  const RunResult result = RunSlices(*target_, c, 0, 2, {0, 12});
  ASSERT_EQ(result.status, KernelStatus::kOk);
  ExpectClose(Values(result), file.Get<double>("f64.y"));
}

DELTAFIN_FOR_EACH_TARGET(GoldenExpertTest);

}  // namespace
}  // namespace deltafin
