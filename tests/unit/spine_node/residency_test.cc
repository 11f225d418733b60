// Which layers of a spine stay in memory.
#include "spine_node/residency.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kPage = 4096;

std::vector<int> StreamedOf(int num_layers, int num_streamed) {
  std::vector<int> layers;
  for (int i = 0; i < num_layers; ++i) {
    if (StreamsLayer(i, num_layers, num_streamed)) layers.push_back(i);
  }
  return layers;
}

TEST(ResidencyTest, StreamedLayersLieEvenlyAmongTheOthers) {
  EXPECT_THAT(StreamedOf(12, 0), ElementsAre());
  EXPECT_THAT(StreamedOf(12, 3), ElementsAre(3, 7, 11));
  EXPECT_THAT(StreamedOf(12, 6), ElementsAre(1, 3, 5, 7, 9, 11));
  EXPECT_THAT(StreamedOf(5, 4), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(StreamedOf(5, 5), ElementsAre(0, 1, 2, 3, 4));
}

TEST(ResidencyTest, AnyNumberMayStreamAndTheFirstLayerIsTheLast) {
  for (int n = 1; n <= 93; ++n) {
    for (int m = 0; m <= n; ++m) {
      ASSERT_EQ(StreamedOf(n, m).size(), static_cast<size_t>(m));
      ASSERT_EQ(StreamsLayer(0, n, m), m == n);
    }
  }
}

TEST(ResidencyTest, BuffersHoldTheLargestStreamedLayer) {
  // 1,000 bytes are no layer's.
  const std::vector<uint64_t> layers = {9 * kPage, 2 * kPage, 2 * kPage,
                                        3 * kPage - 100};
  const uint64_t weights = 16 * kPage - 100 + 1000;
  const SpineResidency none = ResidencyOf(weights, layers, 0);
  EXPECT_EQ(none.memory_bytes, weights);
  EXPECT_EQ(none.buffer_bytes, 0u);
  EXPECT_EQ(none.step_bytes, 0u);
  const SpineResidency three = ResidencyOf(weights, layers, 3);
  EXPECT_EQ(three.step_bytes, 7 * kPage - 100);
  EXPECT_EQ(three.buffer_bytes, 6 * kPage);  // whole pages
  EXPECT_EQ(three.memory_bytes, 9 * kPage + 1000 + 6 * kPage);
  // The first is so large that streaming it, too, takes more.
  EXPECT_EQ(ResidencyOf(weights, layers, 4).memory_bytes, 1000 + 18 * kPage);
}

TEST(ResidencyTest, AsFewLayersStreamAsMemoryAllows) {
  const std::vector<uint64_t> layers(10, kPage);
  const uint64_t weights = 10 * kPage + 500;
  const auto chosen = [&](uint64_t most) {
    return ChooseResidency(weights, layers, most);
  };
  EXPECT_EQ(chosen(weights).num_streamed, 0);
  EXPECT_EQ(chosen(weights - 1).num_streamed, 3);  // two buffers take two
  EXPECT_EQ(chosen(weights - kPage).num_streamed, 3);
  EXPECT_EQ(chosen(weights - kPage - 1).num_streamed, 4);
  EXPECT_EQ(chosen(2 * kPage + 500).num_streamed, 10);
}

TEST(ResidencyTest, WhatNeverFitsTakesTheLeast) {
  const std::vector<uint64_t> layers(10, kPage);
  EXPECT_EQ(ChooseResidency(10 * kPage, layers, 100).memory_bytes, 2 * kPage);
  const std::vector<uint64_t> large_first = {9 * kPage, kPage, kPage, kPage};
  const SpineResidency least = ChooseResidency(12 * kPage, large_first, 0);
  EXPECT_EQ(least.num_streamed, 3);
  EXPECT_EQ(least.memory_bytes, 11 * kPage);
  // Nothing streams where no layers are told.
  EXPECT_EQ(ChooseResidency(12 * kPage, {}, 0).memory_bytes, 12 * kPage);
  EXPECT_EQ(ChooseResidency(12 * kPage, {}, 0).num_streamed, 0);
}

}  // namespace
}  // namespace deltafin
