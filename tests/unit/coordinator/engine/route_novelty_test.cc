#include "coordinator/engine/route_novelty.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

void Add(RouteNovelty& novelty, int layer, std::vector<int32_t> experts,
         int num_tokens = 1) {
  novelty.Add(layer, {.num_tokens = num_tokens,
                      .top_k = 4,
                      .experts = experts,
                      .weights = {},
                      .latent = {}});
}

TEST(RouteNoveltyTest, CountsWhatTheTokenBeforeDidNotWant) {
  RouteNovelty novelty;
  EXPECT_EQ(novelty.fresh(), 1);
  Add(novelty, 3, {1, 2, 5, 9});
  EXPECT_EQ(novelty.fresh(), 1);
  Add(novelty, 3, {2, 4, 9, 11});
  EXPECT_EQ(novelty.fresh(), 0.5);
}

TEST(RouteNoveltyTest, LayersAreToldApart) {
  RouteNovelty novelty;
  Add(novelty, 0, {1, 2, 3, 4});
  Add(novelty, 1, {5, 6, 7, 8});
  Add(novelty, 0, {1, 2, 3, 4});
  EXPECT_EQ(novelty.fresh(), 0);
}

TEST(RouteNoveltyTest, StepsOfSeveralTokensAreNotLookedAt) {
  RouteNovelty novelty;
  Add(novelty, 0, {1, 2, 3, 4});
  Add(novelty, 0, {1, 2, 3, 4, 5, 6, 7, 8}, 2);
  EXPECT_EQ(novelty.fresh(), 1);
}

TEST(RouteNoveltyTest, FollowsAChange) {
  RouteNovelty novelty;
  for (int i = 0; i < 10; ++i) Add(novelty, 0, {1, 2, 3, 4});
  for (int i = 0; i < 2000; ++i) {
    Add(novelty, 0,
        i % 2 == 0 ? std::vector<int32_t>{5, 6, 7, 8}
                   : std::vector<int32_t>{1, 2, 3, 4});
  }
  EXPECT_GT(novelty.fresh(), 0.99);
}

}  // namespace
}  // namespace deltafin
