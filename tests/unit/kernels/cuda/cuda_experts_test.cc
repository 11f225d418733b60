// A card against the scalar definition, bit for bit. Without a card the tests
// say so and are skipped.
#include "kernels/cuda/cuda_experts.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/cuda/cuda_layer_case.h"

namespace deltafin {
namespace {

constexpr ExpertKind kKinds[] = {ExpertKind::kOrdinary, ExpertKind::kAnyScale,
                                 ExpertKind::kNearLimit,
                                 ExpertKind::kSmallTokens};

TEST(CudaCardsTest, ListsCardsOrSaysInOneSentenceWhyThereIsNone) {
  std::string why;
  const std::vector<CudaCard> cards = FindCudaCards(&why);
  if (cards.empty()) {
    EXPECT_NE(why, "");
    EXPECT_EQ(why.find('\n'), std::string::npos);
    EXPECT_EQ(CudaMemory::Allocate(0, 256, &why), nullptr);
    EXPECT_NE(why, "");
    EXPECT_EQ(CudaExperts::Create(0, {{32, 32}, {}, 1, 1, 1}, &why), nullptr);
    EXPECT_NE(why, "");
  }
  for (const CudaCard& card : cards) {
    EXPECT_NE(card.name, "");
    EXPECT_GT(card.multiprocessors, 0);
    EXPECT_LE(card.free_bytes, card.memory_bytes);
  }
}

class CudaExpertsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (FindCudaCards(&why).empty()) GTEST_SKIP() << "not run: " << why;
    SetContractFloatingPointMode();
    ASSERT_NE(reference_ = FindKernel("reference", &why), nullptr);
  }

  void ExpectEqual(const CudaLayerOutcome& got, const CudaLayerOutcome& want) {
    ASSERT_EQ(got.result.status, want.result.status);
    EXPECT_EQ(got.result.expert, want.result.expert);
    EXPECT_EQ(got.result.token, want.result.token);
    if (want.result.status == KernelStatus::kOk) {
      ASSERT_TRUE(got.sums == want.sums);
      ok_ += 1;
    }
  }
  // The tokens together and each by itself.
  void ExpectTheDefinedSums(CudaLayerCase c) {
    CardLayer card(c);
    const CudaLayerOutcome want = RunOnProcessor(*reference_, c);
    ExpectEqual(card.Run(c), want);
    const int ok = ok_;
    c.alone = true;
    ExpectEqual(card.Run(c), want);
    ok_ = ok;
  }

  const KernelTarget* reference_ = nullptr;
  XorShift64 random_;
  int ok_ = 0;  // comparisons of sums
};

TEST_F(CudaExpertsTest, GivesTheDefinedSumsForEveryShapeAndKind) {
  constexpr int kShapes[][2] = {{32, 32},   {32, 96},   {96, 64},   {64, 96},
                                {256, 32},  {288, 96},  {512, 256}, {544, 288},
                                {3072, 96}, {256, 608}, {160, 1056}};
  for (const auto& [inner, latent] : kShapes) {
    for (const ExpertKind kind : kKinds) {
      SCOPED_TRACE(testing::Message() << inner << "x" << latent << " kind "
                                      << static_cast<int>(kind));
      ExpectTheDefinedSums(MakeLayerCase(kind, {latent, inner}, 5, 3,
                                         1 + random_.Below(9), &random_));
    }
  }
  EXPECT_GE(ok_, 20);
}

// Wider than the activations of one token that shared memory takes at once.
TEST_F(CudaExpertsTest, GivesTheDefinedSumsOfWideLatents) {
  for (const int latent : {3584, 3616, 7200}) {
    for (const int tokens : {1, 2, 5}) {
      SCOPED_TRACE(testing::Message() << latent << ", " << tokens);
      ExpectTheDefinedSums(MakeLayerCase(ExpertKind::kOrdinary, {latent, 64}, 3,
                                         2, tokens, &random_));
    }
  }
  EXPECT_GE(ok_, 9);
}

TEST_F(CudaExpertsTest, GivesTheDefinedSumsForAnyNumberOfTokens) {
  const CudaLayerCase all =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 3, 2, 33, &random_);
  CardLayer card(all);
  for (int tokens = 1; tokens <= 33; ++tokens) {
    SCOPED_TRACE(tokens);
    CudaLayerCase c = all;
    c.num_tokens = tokens;
    ExpectEqual(card.Run(c), RunOnProcessor(*reference_, c));
  }
  EXPECT_EQ(ok_, 33);
}

TEST_F(CudaExpertsTest, GivesTheDefinedSumsUnderEveryScaleByte) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 64}, 2, 2, 4, &random_);
  for (int scale = 0; scale < 255; ++scale) {
    SCOPED_TRACE(scale);
    for (const int tensor : {1, 3, 5}) {
      CudaLayerCase changed = c;
      auto& scales = changed.experts[scale % 2].tensors[tensor];
      for (size_t i = tensor; i < scales.size(); i += 3) {
        scales[i] = static_cast<uint8_t>(scale);
      }
      ExpectTheDefinedSums(changed);
    }
  }
  EXPECT_GE(ok_, 300);
}

TEST_F(CudaExpertsTest, GivesTheDefinedSumsOfAdversarialValues) {
  for (const uint8_t code : {0x77, 0xff, 0x7f, 0x88}) {
    for (const float value :
         {std::bit_cast<float>(0x3faaaaaau), std::bit_cast<float>(0x3faaaaabu),
          -std::bit_cast<float>(0x3faaaaaau), 0x1p-117f, 0x1p-149f, -0.0f,
          0x1p127f, std::numeric_limits<float>::max()}) {
      SCOPED_TRACE(testing::Message() << int{code} << " " << value);
      CudaLayerCase c =
          MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 3, 2, 5, &random_);
      for (int i : {0, 2, 4}) {
        for (uint8_t& b : c.experts[i / 2].tensors[i]) b = code;
      }
      for (int i = 0; i < 96; ++i) c.x[96 + i] = i % 5 == 0 ? value : 1e-3f;
      for (int i = 0; i < 96; ++i) c.x[192 + i] = value;
      ExpectTheDefinedSums(c);
    }
  }
  EXPECT_GE(ok_, 10);
}

TEST_F(CudaExpertsTest, UsesUpAsItIsWhereTheModelHasNoLinearBeta) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 3, 2, 5, &random_);
  c.situ.linear_beta = 0;
  ExpectTheDefinedSums(c);
  for (uint8_t& scale : c.experts[0].tensors[3]) scale = 240;  // up overflows
  ExpectTheDefinedSums(c);
}

TEST_F(CudaExpertsTest, AddsRunsOfSlicesToTheSameSums) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {64, 1120}, 4, 3, 6, &random_);
  const CudaLayerOutcome whole = RunOnProcessor(*reference_, c);
  std::vector<int64_t> total(whole.sums.size(), 0);
  for (const SliceRun run : {SliceRun{0, 2}, SliceRun{2, 1}, SliceRun{3, 2}}) {
    c.runs.assign(4, run);
    CardLayer card(c);
    const CudaLayerOutcome part = card.Run(c);
    ASSERT_EQ(part.result.status, KernelStatus::kOk);
    for (size_t i = 0; i < total.size(); ++i) total[i] += part.sums[i];
  }
  EXPECT_TRUE(total == whole.sums);
}

TEST_F(CudaExpertsTest, AddsNothingForExpertsThatAreNotThere) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 4, 3, 7, &random_);
  c.runs[1] = {0, 0};
  c.runs[3] = {1, 1};
  c.routes[2].expert = -1;
  c.routes[5].expert = 4;
  ExpectTheDefinedSums(c);
  for (CudaExpertRoute& route : c.routes) route.expert = 1;
  ExpectTheDefinedSums(c);
  EXPECT_EQ(ok_, 2);
}

TEST_F(CudaExpertsTest, ATokenMayWantAnExpertSeveralTimes) {
  for (const int tokens : {1, 2, 5}) {
    CudaLayerCase c =
        MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 7, 7, tokens, &random_);
    for (size_t i = 0; i < c.routes.size(); ++i) {
      c.routes[i].expert = i % 7 < 5 ? 1 : 4;
    }
    ExpectTheDefinedSums(c);
  }
  EXPECT_EQ(ok_, 3);
}

TEST_F(CudaExpertsTest, ReportsTheLowestTokenThatIsNotFinite) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 3, 3, 21, &random_);
  c.x[20 * 96 + 95] = std::numeric_limits<float>::quiet_NaN();
  c.x[13 * 96 + 40] = std::numeric_limits<float>::infinity();
  CardLayer card(c);
  CudaLayerOutcome outcome = card.Run(c);
  EXPECT_EQ(outcome.result.status, KernelStatus::kNotFinite);
  EXPECT_EQ(outcome.result.token, 13);
  c.x[20 * 96 + 95] = 1;
  c.x[13 * 96 + 40] = 1;
  ExpectEqual(card.Run(c), RunOnProcessor(*reference_, c));
  EXPECT_EQ(ok_, 1);
}

TEST_F(CudaExpertsTest, ReportsTheLowestExpertAndItsLowestTokenOfAnOverflow) {
  CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {96, 288}, 3, 2, 21, &random_);
  for (const int route : {40, 27, 11, 38}) c.routes[route].weight = 0x1p100f;
  ExpectTheDefinedSums(c);
  c.routes[5].weight = std::numeric_limits<float>::quiet_NaN();
  ExpectTheDefinedSums(c);
  for (uint8_t& scale : c.experts[2].tensors[1]) scale = 254;
  ExpectTheDefinedSums(c);
  EXPECT_EQ(ok_, 0);
}

TEST_F(CudaExpertsTest, GivesTheSameBitsEveryTime) {
  const CudaLayerCase c =
      MakeLayerCase(ExpertKind::kOrdinary, {608, 800}, 24, 6, 33, &random_);
  CardLayer card(c);
  const CudaLayerOutcome first = card.Run(c);
  ExpectEqual(first, RunOnProcessor(BestKernel(), c));
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(card.Run(c).sums == first.sums) << i;
  EXPECT_EQ(ok_, 1);
}

// One token alone has a kernel of its own, but for the second object of a card
// at the same time.
TEST_F(CudaExpertsTest, BothKernelsOfOneTokenGiveTheDefinedSums) {
  for (const int inner : {96, 512, 1120}) {
    SCOPED_TRACE(inner);
    const CudaLayerCase c =
        MakeLayerCase(ExpertKind::kOrdinary, {352, inner}, 24, 11, 1, &random_);
    const CudaLayerOutcome want = RunOnProcessor(*reference_, c);
    CardLayer first(c);
    CardLayer second(c);
    ExpectEqual(first.Run(c), want);
    ExpectEqual(second.Run(c), want);
  }
  EXPECT_EQ(ok_, 6);
}

TEST_F(CudaExpertsTest, TokensByThemselvesMayFollowAndPrecedeOthers) {
  const CudaLayerCase all =
      MakeLayerCase(ExpertKind::kOrdinary, {160, 608}, 12, 5, 8, &random_);
  CardLayer card(all);
  CudaLayerCase c = all;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    c.num_tokens = i % 2 == 1 ? 1 + i % 8 : 1;
    c.alone = i % 3 != 0;
    for (CudaExpertRoute& route : c.routes) {
      route.expert = static_cast<int>(random_.Below(14)) - 1;
    }
    ExpectEqual(card.Run(c), RunOnProcessor(*reference_, c));
  }
  EXPECT_EQ(ok_, 60);
}

TEST_F(CudaExpertsTest, RefusesMoreMemoryThanTheCardHasAndGoesOn) {
  std::string why;
  EXPECT_EQ(CudaMemory::Allocate(0, size_t{1} << 60, &why), nullptr);
  EXPECT_NE(why.find("taking 1152921504606846976 bytes"), std::string::npos);
  ExpectTheDefinedSums(
      MakeLayerCase(ExpertKind::kOrdinary, {96, 64}, 2, 2, 4, &random_));
  EXPECT_EQ(ok_, 1);
}

}  // namespace
}  // namespace deltafin
