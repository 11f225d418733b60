// What the config alone says about memory, against the sizes of
// docs/model.md 5 and 6.3 for K3.
#include "spine_node/memory_needs.h"

#include <string>

#include "gtest/gtest.h"
#include "spine_node/unit_layout.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

constexpr int64_t kHidden = 7168, kWidth = 12288, kLayers = 93, kKda = 69,
                  kMla = 24;
// Vectors are held in f32: the two norms of a layer, of MLA and of the latent
// grow; norm and proj of an attention-residual site become one f32 product, as
// large as the two.
constexpr int64_t kLayerGrowth = 2 * 2 * kHidden;
constexpr int64_t kMlaGrowth = 2 * (1536 + 512);
constexpr int64_t kMoeGrowth = 2 * 3584;
constexpr int64_t kHeadGrowth = 2 * kHidden;

class K3MemoryTest : public ::testing::Test {
 protected:
  K3MemoryTest() {
    auto spec = ModelSpec::Load(DELTAFIN_SOURCE_DIR "/tests/golden/k3");
    EXPECT_TRUE(spec.ok()) << spec.status();
    spec_ = *std::move(spec);
  }

  int64_t LayerBytes(int layer, SpinePrecision precision) const {
    LayerWeights weights;
    const UnitLayout layout = LayOutLayer(spec_, layer, precision, &weights);
    return static_cast<int64_t>(layout.dense_bytes + layout.rows_bytes);
  }

  ModelSpec spec_;
};

TEST_F(K3MemoryTest, Bf16LayersHaveTheReleasedSizes) {
  EXPECT_EQ(LayerBytes(0, SpinePrecision::kBf16), 2341213184 + kLayerGrowth);
  EXPECT_EQ(LayerBytes(1, SpinePrecision::kBf16),
            1267744256 + kLayerGrowth + kMoeGrowth);
  EXPECT_EQ(LayerBytes(3, SpinePrecision::kBf16),
            844335616 + kLayerGrowth + kMlaGrowth + kMoeGrowth);
  EXPECT_EQ(LayerBytes(92, SpinePrecision::kBf16),
            LayerBytes(3, SpinePrecision::kBf16));
}

TEST_F(K3MemoryTest, Bf16SpineIsTheReleasedOneWithoutEmbedding) {
  const SpineMemoryNeeds needs = SpineNeeds(spec_, SpinePrecision::kBf16);
  EXPECT_EQ(needs.weight_bytes, 113509540864 - 2348810240 +
                                    kLayers * kLayerGrowth + kMla * kMlaGrowth +
                                    (kLayers - 1) * kMoeGrowth + kHeadGrowth);
  EXPECT_EQ(needs.int8_file_bytes, 0);
}

TEST_F(K3MemoryTest, Int8SpineHoldsOneByteAWeightAndOneScaleARow) {
  const auto matrix = [](int64_t rows, int64_t cols) {
    return rows * cols + 4 * rows;
  };
  const int64_t vectors = 16 * kHidden;
  const int64_t kda_int8 =
      4 * matrix(kWidth, kHidden) + matrix(kHidden, kWidth);
  const int64_t kda_rest =
      2 * (128 * kHidden + kWidth * 128 + 96 * kHidden) + 640000;
  const int64_t mla_int8 = matrix(1536, kHidden) + matrix(18432, 1536) +
                           matrix(576, kHidden) + matrix(kWidth, kHidden) +
                           matrix(kHidden, kWidth);
  const int64_t mla_rest = 2 * 24576 * 512 + 4 * (1536 + 512);
  const int64_t dense_int8 =
      2 * matrix(33792, kHidden) + matrix(kHidden, 33792);
  const int64_t moe_int8 = 2 * matrix(6144, kHidden) + matrix(kHidden, 6144) +
                           matrix(3584, kHidden) + matrix(kHidden, 3584);
  const int64_t moe_rest = 2 * 896 * kHidden + 4 * 896 + 4 * 3584;
  EXPECT_EQ(LayerBytes(0, SpinePrecision::kInt8),
            vectors + kda_int8 + kda_rest + dense_int8);
  EXPECT_EQ(LayerBytes(1, SpinePrecision::kInt8),
            vectors + kda_int8 + kda_rest + moe_int8 + moe_rest);
  EXPECT_EQ(LayerBytes(3, SpinePrecision::kInt8),
            vectors + mla_int8 + mla_rest + moe_int8 + moe_rest);

  const SpineMemoryNeeds needs = SpineNeeds(spec_, SpinePrecision::kInt8);
  const int64_t int8 = kKda * kda_int8 + kMla * mla_int8 + dense_int8 +
                       92 * moe_int8 + matrix(163840, kHidden);
  EXPECT_EQ(needs.int8_file_bytes, int8 + (kLayers + 1) * 4096);
  EXPECT_EQ(needs.weight_bytes, int8 + kLayers * vectors + kKda * kda_rest +
                                    kMla * mla_rest + 92 * moe_rest +
                                    8 * kHidden);
  EXPECT_LT(needs.weight_bytes, int64_t{58} * 1000 * 1000 * 1000);
}

TEST_F(K3MemoryTest, SequenceNeedsAreThoseOfTheModelPage) {
  const SpineMemoryNeeds needs = SpineNeeds(spec_, SpinePrecision::kBf16);
  EXPECT_EQ(needs.sequence_fixed_bytes, 434110464 + 30523392);
  EXPECT_EQ(needs.sequence_token_bytes, 55296);
  // Prefix, eight snapshots, feed-forward input, shared output; latent; routes.
  EXPECT_EQ(needs.step_token_bytes, 4 * (11 * kHidden + 3584) + 8 * 16);
}

TEST(MemoryNeedsTest, AreWhatALoadedSpineDescribes) {
  const std::string model = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
  SpineRun run(model);
  const SpineDescription description = run.spine().description();
  const SpineMemoryNeeds needs = SpineNeeds(run.spec(), SpinePrecision::kBf16);
  EXPECT_EQ(description.weight_bytes, needs.weight_bytes);
  EXPECT_EQ(description.sequence_fixed_bytes, needs.sequence_fixed_bytes);
  EXPECT_EQ(description.sequence_token_bytes, needs.sequence_token_bytes);
}

}  // namespace
}  // namespace deltafin::testing
