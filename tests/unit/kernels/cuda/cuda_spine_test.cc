// The spine's layers on a card against f64. Without a card the tests say so and
// are skipped.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda/spine_card.h"
#include "tests/unit/kernels/cuda/spine_case.h"

namespace deltafin::testing {
namespace {

std::vector<float> Flat(const Rows& rows) {
  std::vector<float> values;
  for (const Row& row : rows) {
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

double RelativeDifference(const std::vector<float>& got, const Rows& want) {
  double difference = 0, size = 0;
  size_t i = 0;
  for (const Row& row : want) {
    for (const double w : row) {
      difference += (got[i] - w) * (got[i] - w);
      size += w * w;
      ++i;
    }
  }
  return std::sqrt(difference / size);
}

constexpr double kTolerance = 4e-6;
constexpr int kContext = 200;

struct Kind {
  bool wide;
  bool int8;
};

// Layers of both kinds in f64 and on the card, fed with the same steps.
class Pair {
 public:
  Pair(Kind kind, uint32_t seed)
      : shape_(SmallSpineShape(kind.wide)),
        random_(shape_, kind.int8, seed),
        definition_(shape_),
        copies_(0) {
    std::string why;
    card_ = CudaSpine::Create(0, shape_, nullptr, &why);
    EXPECT_NE(card_, nullptr) << why;
    for (int i = 0; i < 4; ++i) AddLayer(i % 2 == 1, i > 0);
  }

  // All layers over `count` new tokens; returns the prefix on the card.
  std::vector<float> Step(int count) {
    const Rows embedding = random_.Vectors(count, shape_.hidden_size);
    definition_.Begin(embedding);
    EXPECT_TRUE(card_->Begin(Flat(embedding).data(), count, &why_)) << why_;
    for (size_t i = 0; i < layers_.size(); ++i) RunLayer(i, count);
    position_ += count;
    const float* prefix = nullptr;
    EXPECT_TRUE(card_->Prefix(&prefix, &why_)) << why_;
    return Fetch(prefix, size_t{1} * count * shape_.hidden_size);
  }

  void ExpectTheDefinedPrefix(const std::vector<float>& got) {
    EXPECT_LT(RelativeDifference(got, definition_.prefix), kTolerance);
    ASSERT_EQ(card_->num_snapshots(),
              static_cast<int>(definition_.snapshots.size()));
    for (int i = 0; i < card_->num_snapshots(); ++i) {
      const Rows& want = definition_.snapshots[i];
      EXPECT_LT(RelativeDifference(
                    Fetch(card_->snapshot(i), want.size() * shape_.hidden_size),
                    want),
                kTolerance);
    }
  }

 private:
  void AddLayer(bool is_mla, bool is_moe) {
    layers_.push_back(random_.Layer(is_mla, is_moe));
    card_layers_.push_back(copies_.Upload(layers_.back()));
    states_.push_back(EmptyHostState(shape_));
    CudaSequence state;
    const size_t width = size_t{1} * shape_.kda_num_heads * shape_.kda_head_dim;
    state.kda_matrix = copies_.Zeros(width * shape_.kda_head_dim);
    for (float*& history : state.kda_history)
      history = copies_.Zeros(3 * width);
    state.mla_rows = copies_.Zeros(
        size_t{kContext} * (shape_.kv_lora_rank + shape_.qk_rope_head_dim));
    card_states_.push_back(state);
  }

  void RunLayer(size_t i, int count) {
    const bool starts_block = i % 2 == 0;
    CudaSequence state = card_states_[i];
    state.count = count;
    state.mla_position = position_;
    definition_.Attend(layers_[i], starts_block, states_[i]);
    EXPECT_TRUE(card_->Attend(card_layers_[i], starts_block, &state, 1, &why_))
        << why_;
    if (!layers_[i].is_moe) {
      definition_.DenseMlp(layers_[i]);
      EXPECT_TRUE(card_->DenseMlp(card_layers_[i], &why_)) << why_;
      return;
    }
    definition_.Route(layers_[i]);
    EXPECT_TRUE(card_->Route(card_layers_[i], &why_)) << why_;
    ExpectTheDefinedRoutes(count);
    const Rows sums = random_.Vectors(count, shape_.latent_size);
    std::vector<int64_t> fixed;
    for (const float v : Flat(sums)) {
      fixed.push_back(static_cast<int64_t>(std::ldexp(v, 40)));
    }
    definition_.AddRouted(layers_[i], sums);
    EXPECT_TRUE(card_->SharedExperts(card_layers_[i], &why_)) << why_;
    EXPECT_TRUE(card_->AddRoutedExperts(card_layers_[i], fixed.data(), &why_))
        << why_;
  }

  void ExpectTheDefinedRoutes(int count) {
    CudaRouted routed;
    bool finite = false;
    ASSERT_TRUE(card_->TakeRouted(&routed, &finite, &why_)) << why_;
    EXPECT_TRUE(finite);
    for (int t = 0; t < count; ++t) {
      for (int k = 0; k < shape_.top_k; ++k) {
        const int at = t * shape_.top_k + k;
        EXPECT_EQ(routed.experts[at], definition_.experts[t][k]);
        EXPECT_NEAR(routed.weights[at], definition_.weights[t][k], 1e-6);
      }
    }
    const size_t values = size_t{1} * count * shape_.latent_size;
    EXPECT_LT(RelativeDifference({routed.latents, routed.latents + values},
                                 definition_.latents),
              kTolerance);
  }

  std::vector<float> Fetch(const float* from, size_t count) {
    std::vector<float> values(count);
    EXPECT_TRUE(card_->Fetch(from, count, values.data(), &why_)) << why_;
    return values;
  }

  const CudaSpineShape shape_;
  RandomSpine random_;
  SpineDefinition definition_;
  CardCopies copies_;
  std::string why_;
  std::unique_ptr<CudaSpine> card_;
  std::vector<HostLayer> layers_;
  std::vector<CudaSpineLayer> card_layers_;
  std::vector<HostState> states_;
  std::vector<CudaSequence> card_states_;
  int64_t position_ = 0;
};

class CudaSpineTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string why;
    if (FindCudaCards(&why).empty()) GTEST_SKIP() << "not run: " << why;
  }
};

TEST_P(CudaSpineTest, ComputesTheDefinedPrefixForOneToEightTokens) {
  Pair pair(GetParam(), 7);
  for (const int count : {1, 2, 8, 3, 4, 5, 6, 7, 1, 8, 8, 8, 1}) {
    pair.ExpectTheDefinedPrefix(pair.Step(count));
  }
}

TEST_P(CudaSpineTest, IsEqualFromRunToRun) {
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    Pair pair(GetParam(), 8);
    std::vector<float> all;
    for (const int count : {8, 1, 5, 1}) {
      const std::vector<float> prefix = pair.Step(count);
      all.insert(all.end(), prefix.begin(), prefix.end());
    }
    if (run == 0) first = all;
    EXPECT_TRUE(all == first) << "run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSpineTest,
                         ::testing::Values(Kind{false, false},
                                           Kind{false, true}, Kind{true, false},
                                           Kind{true, true}),
                         [](const auto& info) {
                           return std::string(info.param.wide ? "Wide"
                                                              : "Small") +
                                  (info.param.int8 ? "Int8" : "Bf16");
                         });

TEST(CudaSpineShapeTest, UnsuitableExtentsAreNamed) {
  CudaSpineShape shape = SmallSpineShape(false);
  std::string why;
  shape.kda_head_dim = 24;
  EXPECT_FALSE(CudaSpine::Supports(shape, &why));
  EXPECT_NE(why, "");
}

}  // namespace
}  // namespace deltafin::testing
