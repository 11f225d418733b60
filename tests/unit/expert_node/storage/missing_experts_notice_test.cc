#include "expert_node/storage/missing_experts_notice.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

TEST(ExpertSecondsPerTokenTest, AddsTheDrivesAndTheSourcesTime) {
  // 25.8 GB a token, 3 GB/s and 100 MB/s.
  EXPECT_DOUBLE_EQ(*ExpertSecondsPerToken({25.8e9, 0.5}, {3e9, 1e8}),
                   12.9e9 / 3e9 + 12.9e9 / 1e8);
}

TEST(ExpertSecondsPerTokenTest, NeedsOnlyTheRatesOfWhatIsRead) {
  EXPECT_DOUBLE_EQ(*ExpertSecondsPerToken({1e9, 1}, {0, 1e8}), 10);
  EXPECT_DOUBLE_EQ(*ExpertSecondsPerToken({1e9, 0}, {2e9, 0}), 0.5);
}

TEST(ExpertSecondsPerTokenTest, IsNotKnownWithoutARateThatItNeeds) {
  EXPECT_EQ(ExpertSecondsPerToken({1e9, 0.5}, {2e9, 0}), std::nullopt);
  EXPECT_EQ(ExpertSecondsPerToken({1e9, 0.5}, {0, 1e8}), std::nullopt);
}

}  // namespace
}  // namespace deltafin
