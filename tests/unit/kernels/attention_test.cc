// Attention and attention residuals of docs/numerics.md section 7: every target
// against the scalar definition.
#include <gtest/gtest.h>

#include "kernels/reference/reference_tables.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {
namespace {

struct AttentionShape {
  int num_queries;
  int key_dim;
  int value_dim;
  int num_positions;
};

constexpr AttentionShape kShapes[] = {
    {1, 1, 1, 1},     {1, 8, 8, 2},       {3, 40, 32, 5},     {6, 63, 31, 15},
    {9, 64, 33, 16},  {4, 65, 65, 17},    {17, 129, 100, 31}, {8, 72, 64, 33},
    {2, 24, 16, 255}, {5, 96, 64, 256},   {7, 40, 17, 257},   {3, 130, 48, 600},
    {97, 20, 12, 40}, {16, 576, 512, 300}};

struct AttentionInputs {
  AttentionShape shape;
  std::vector<float> query, keys;
};

AttentionInputs RandomInputs(const AttentionShape& s, XorShift64* random) {
  AttentionInputs in{s, {}, {}};
  in.query = RandomFloats(random, size_t(s.num_queries) * s.key_dim);
  in.keys =
      RandomFloats(random, size_t(s.num_positions) * s.key_dim, {115, 127});
  return in;
}

// Queries [first, first + count) in one call; out and the scratch are guarded.
std::vector<float> Attend(const ElementwiseKernel& kernel,
                          const AttentionInputs& in, int first, int count) {
  const AttentionShape& s = in.shape;
  const size_t out_size = size_t(count) * s.value_dim;
  const size_t scores_size = size_t(count) * s.num_positions;
  std::vector<float> out(out_size + 1, 7.0f), scores(scores_size + 1, 7.0f);
  kernel.attention({.num_queries = count,
                    .query = &in.query[size_t(first) * s.key_dim],
                    .keys = in.keys.data(),
                    .key_dim = s.key_dim,
                    .value_dim = s.value_dim,
                    .num_positions = s.num_positions,
                    .scale = 0.125f,
                    .scores = scores.data(),
                    .out = out.data()});
  EXPECT_EQ(out.back(), 7.0f);
  EXPECT_EQ(scores.back(), 7.0f);
  out.pop_back();
  return out;
}

class AttentionTest : public KernelTargetTest {
 protected:
  XorShift64 random_;
};

TEST_P(AttentionTest, GivesTheDefinedBitsForEveryShape) {
  for (const AttentionShape& s : kShapes) {
    const AttentionInputs in = RandomInputs(s, &random_);
    ASSERT_TRUE(
        SameFloats(Attend(target_->elementwise, in, 0, s.num_queries),
                   Attend(kReferenceElementwiseKernel, in, 0, s.num_queries)))
        << s.num_queries << " queries, " << s.key_dim << " dimensions, "
        << s.num_positions << " positions";
  }
}

TEST_P(AttentionTest, GivesTheDefinedBitsForScoresThatSpreadWidely) {
  for (const AttentionShape& s : {kShapes[5], kShapes[11]}) {
    AttentionInputs in = RandomInputs(s, &random_);
    for (float& q : in.query) q *= 64.0f;
    ASSERT_TRUE(
        SameFloats(Attend(target_->elementwise, in, 0, s.num_queries),
                   Attend(kReferenceElementwiseKernel, in, 0, s.num_queries)));
  }
}

TEST_P(AttentionTest, GivesAQueryTheSameBitsInAnyCompany) {
  const AttentionInputs in = RandomInputs({13, 100, 70, 300}, &random_);
  const auto together = Attend(target_->elementwise, in, 0, 13);
  for (const int count : {1, 2, 5}) {
    for (int first = 0; first + count <= 13; first += count) {
      const std::vector<float> want(together.begin() + first * 70,
                                    together.begin() + (first + count) * 70);
      ASSERT_TRUE(
          SameFloats(Attend(target_->elementwise, in, first, count), want))
          << count << " from " << first;
    }
  }
}

TEST_P(AttentionTest, PassesNanOn) {
  AttentionInputs in = RandomInputs({2, 32, 16, 40}, &random_);
  in.query[3] = NAN;  // the first query alone
  const auto out = Attend(target_->elementwise, in, 0, 2);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_TRUE(std::isfinite(out[16]));
}

struct ResidualInputs {
  std::vector<std::vector<float>> candidates;
  std::vector<float> nw;
};

ResidualInputs RandomResidual(int n, int hidden, XorShift64* random) {
  ResidualInputs in;
  for (int j = 0; j < n; ++j) {
    in.candidates.push_back(RandomFloats(random, hidden));
  }
  in.nw = RandomFloats(random, hidden, {115, 122});
  return in;
}

std::vector<float> Mix(const ElementwiseKernel& kernel,
                       const ResidualInputs& in, KernelStatus* status) {
  std::vector<const float*> pointers;
  for (const auto& c : in.candidates) pointers.push_back(c.data());
  std::vector<float> out(in.nw.size() + 1, 7.0f);
  *status = kernel.attention_residual(
      pointers.data(), static_cast<int>(pointers.size()), in.nw.data(),
      static_cast<int>(in.nw.size()), 1e-5f, out.data());
  EXPECT_EQ(out.back(), 7.0f);
  return out;
}

TEST_P(AttentionTest, ResidualsGiveTheDefinedBits) {
  for (const int hidden : {1, 15, 24, 31, 32, 33, 64, 100, 192, 1000}) {
    for (const int n : {1, 2, 9, 33, 256}) {
      if (n * hidden > 40000) continue;
      const ResidualInputs in = RandomResidual(n, hidden, &random_);
      KernelStatus status, want_status;
      const auto got = Mix(target_->elementwise, in, &status);
      const auto want = Mix(kReferenceElementwiseKernel, in, &want_status);
      ASSERT_EQ(status, KernelStatus::kOk);
      ASSERT_EQ(want_status, KernelStatus::kOk);
      ASSERT_TRUE(SameFloats(got, want)) << n << " of " << hidden;
    }
  }
}

TEST_P(AttentionTest, ResidualsRefuseACandidateThatIsNotFinite) {
  for (const float bad : {INFINITY, NAN, 0x1p64f}) {
    for (const int j : {0, 2}) {
      ResidualInputs in = RandomResidual(3, 40, &random_);
      in.candidates[j][39] = bad;
      KernelStatus status;
      Mix(target_->elementwise, in, &status);
      EXPECT_EQ(status, KernelStatus::kNotFinite);
    }
  }
}

DELTAFIN_FOR_EACH_TARGET(AttentionTest);

// Equal on x86-64 and ARM.
constexpr uint64_t kDigest = 0x353d2666d53a8692;

TEST(AttentionDefinitionTest, GivesTheStoredDigestOnEveryMachine) {
  SetContractFloatingPointMode();
  XorShift64 random;
  Digest digest;
  for (const AttentionShape& s : kShapes) {
    const AttentionInputs in = RandomInputs(s, &random);
    const auto out = Attend(kReferenceElementwiseKernel, in, 0, s.num_queries);
    digest.Add(out.data(), out.size() * sizeof(float));
  }
  KernelStatus status;
  const auto mixed = Mix(kReferenceElementwiseKernel,
                         RandomResidual(9, 192, &random), &status);
  digest.Add(mixed.data(), mixed.size() * sizeof(float));
  EXPECT_EQ(digest.value(), kDigest) << std::hex << digest.value();
}

}  // namespace
}  // namespace deltafin
