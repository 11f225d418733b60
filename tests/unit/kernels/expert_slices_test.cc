// Section 8 of docs/numerics.md: every target, cut and batch against the scalar
// definition.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_runner.h"
#include "tests/unit/kernels/kernel_target_test.h"

namespace deltafin {
namespace {

// Equal on x86-64 and ARM; the prototype of the contract gave the same.
constexpr uint64_t kSmallDigest = 0x0a4c6a127731e3ea;

struct SmallCases {
  Digest digest;
  std::vector<ExpertCase> cases;
  SmallCases() {
    XorShift64 random;
    cases = MakeSmallExpertCases(&random, &digest);
  }
};

const SmallCases& Small() {
  static const SmallCases cases;
  return cases;
}

// The definition's sums for the first tokens, or its lowest error.
void ExpectDefinedResult(const ExpertCase& c, int num_tokens,
                         const RunResult& got) {
  const auto end = c.ok.begin() + num_tokens;
  const auto bad = std::find(c.ok.begin(), end, false);
  if (bad != end) {
    EXPECT_EQ(got.status, KernelStatus::kOverflow);
    EXPECT_EQ(got.bad_token, bad - c.ok.begin());
    return;
  }
  ASSERT_EQ(got.status, KernelStatus::kOk) << "token " << got.bad_token;
  for (size_t i = 0; i < got.sums.size(); ++i) {
    ASSERT_EQ(got.sums[i], c.sums[i])
        << "token " << i / c.shape.latent_size << " of " << num_tokens
        << ", latent " << i % c.shape.latent_size;
  }
}

std::string Describe(const ExpertCase& c) {
  return "F " + std::to_string(c.shape.intermediate_size) + ", L " +
         std::to_string(c.shape.latent_size);
}

class ExpertSlicesTest : public KernelTargetTest {};

TEST_P(ExpertSlicesTest, GivesEqualSumsForEveryCutAndOrderOfRuns) {
  XorShift64 shuffle(777);
  for (const ExpertCase& c : Small().cases) {
    for (const int num_runs : {1, 2, 3, 4, 6, 12}) {
      if (num_runs > c.shape.num_slices()) continue;
      SCOPED_TRACE(Describe(c) + ", runs " + std::to_string(num_runs));
      ASSERT_NO_FATAL_FAILURE(ExpectDefinedResult(
          c, c.num_tokens,
          RunCut(*target_, c, c.num_tokens, num_runs, &shuffle)));
    }
  }
}

TEST_P(ExpertSlicesTest, GivesEqualSumsForOneToNineTokens) {
  for (const ExpertCase& c : Small().cases) {
    if (c.num_tokens != 9 || c.shape.intermediate_size > 600) continue;
    for (int num_tokens = 1; num_tokens <= 9; ++num_tokens) {
      SCOPED_TRACE(Describe(c) + ", tokens " + std::to_string(num_tokens));
      ASSERT_NO_FATAL_FAILURE(ExpectDefinedResult(
          c, num_tokens,
          RunSlices(*target_, c, 0, num_tokens, {0, c.shape.num_slices()})));
    }
  }
}

TEST_P(ExpertSlicesTest, GivesEachTokenOfALargeBatchWhatItGetsAlone) {
  XorShift64 random(5);
  ExpertCase c;
  c.shape = {96, 288};
  c.num_tokens = 35;  // three passes, the last one odd
  FillExpertCase(ExpertKind::kOrdinary, &random, &c);
  const SliceRun all = {0, 2};
  const RunResult batch = RunSlices(*target_, c, 0, c.num_tokens, all);
  ASSERT_EQ(batch.status, KernelStatus::kOk);
  for (int t = 0; t < c.num_tokens; ++t) {
    const RunResult alone = RunSlices(*target_, c, t, 1, all);
    ASSERT_TRUE(std::equal(alone.sums.begin(), alone.sums.end(),
                           batch.sums.begin() + t * c.shape.latent_size))
        << "token " << t;
  }
}

TEST_P(ExpertSlicesTest, AddsToTheSumsThatItFinds) {
  const ExpertCase& c = Small().cases[0];
  const RunResult got = RunSlices(*target_, c, 0, 1, {0, 1}, -12345);
  ASSERT_EQ(got.status, KernelStatus::kOk);
  for (int r = 0; r < c.shape.latent_size; ++r) {
    ASSERT_EQ(got.sums[r], c.sums[r] - 12345);
  }
}

DELTAFIN_FOR_EACH_TARGET(ExpertSlicesTest);

TEST(ExpertDefinitionTest, GivesTheStoredSliceDigestOnEveryMachine) {
  EXPECT_EQ(Small().digest.value(), kSmallDigest)
      << std::hex << Small().digest.value();
}

TEST(ExpertDefinitionTest, RefusesSomeTokensAndNotOthers) {
  int refused = 0, accepted = 0;
  for (const ExpertCase& c : Small().cases) {
    refused += std::count(c.ok.begin(), c.ok.end(), false);
    accepted += std::count(c.ok.begin(), c.ok.end(), true);
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace deltafin
