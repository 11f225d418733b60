#include "kernels/cuda/one_token_shares.h"

#include <gtest/gtest.h>

namespace deltafin::cuda {
namespace {

struct Layer {
  int jobs;
  int down_strips;
  int blocks;
};
constexpr Layer kLayers[] = {{192, 112, 132}, {1, 1, 132},   {2, 3, 148},
                             {48, 112, 132},  {7, 225, 108}, {512, 225, 160},
                             {5, 2, 1},       {33, 6, 40}};

TEST(OneTokenSharesTest, BlocksHaveEveryUnitAndStripOnce) {
  for (const Layer& layer : kLayers) {
    SCOPED_TRACE(testing::Message() << layer.jobs << " jobs");
    const int early = (layer.jobs + kEarlyPart - 1) / kEarlyPart;
    int up[2] = {0, early * kUpUnits};
    int down[2] = {0, early * layer.down_strips};
    for (int block = 0; block < layer.blocks; ++block) {
      const BlockShare share =
          ShareOfBlock(layer.jobs, layer.down_strips, block, layer.blocks);
      for (int half = 0; half < 2; ++half) {
        ASSERT_EQ(share.first_up[half], up[half]);
        ASSERT_GE(share.end_up[half], up[half]);
        ASSERT_EQ(share.first_down[half], down[half]);
        ASSERT_GE(share.num_down[half], 0);
        up[half] = share.end_up[half];
        down[half] += share.num_down[half];
      }
    }
    EXPECT_EQ(up[0], early * kUpUnits);
    EXPECT_EQ(up[1], layer.jobs * kUpUnits);
    EXPECT_EQ(down[0], early * layer.down_strips);
    EXPECT_EQ(down[1], layer.jobs * layer.down_strips);
  }
}

TEST(OneTokenSharesTest, SharesDifferByOne) {
  for (const Layer& layer : kLayers) {
    const int early = (layer.jobs + kEarlyPart - 1) / kEarlyPart;
    const int strips[2] = {early * layer.down_strips,
                           (layer.jobs - early) * layer.down_strips};
    for (int block = 0; block < layer.blocks; ++block) {
      const BlockShare share =
          ShareOfBlock(layer.jobs, layer.down_strips, block, layer.blocks);
      for (int half = 0; half < 2; ++half) {
        EXPECT_GE(share.num_down[half], strips[half] / layer.blocks);
        EXPECT_LE(share.num_down[half], strips[half] / layer.blocks + 1);
      }
    }
  }
}

TEST(OneTokenSharesTest, NobodyHasAnythingOfNoJobs) {
  const BlockShare share = ShareOfBlock(0, 112, 3, 132);
  for (int half = 0; half < 2; ++half) {
    EXPECT_EQ(share.end_up[half] - share.first_up[half], 0);
    EXPECT_EQ(share.num_down[half], 0);
  }
}

}  // namespace
}  // namespace deltafin::cuda
