#include "kernels/cuda/one_token_shares.h"

#include <gtest/gtest.h>

#include "kernels/cuda/cuda_experts.h"

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

BlockShare Share(const Layer& layer, int block) {
  return ShareOfBlock(layer.jobs, kEarlyPart, layer.down_strips, block,
                      layer.blocks);
}

TEST(OneTokenSharesTest, BlocksHaveEveryUnitAndStripOnce) {
  for (const Layer& layer : kLayers) {
    SCOPED_TRACE(testing::Message() << layer.jobs << " jobs");
    const int early = (layer.jobs + kEarlyPart - 1) / kEarlyPart;
    int up[2] = {0, early * kUpUnits};
    int down[2] = {0, early * layer.down_strips};
    for (int block = 0; block < layer.blocks; ++block) {
      const BlockShare share = Share(layer, block);
      for (int half = 0; half < 2; ++half) {
        ASSERT_EQ(share.first_up[half], up[half]);
        ASSERT_GE(share.end_up[half], up[half]);
        ASSERT_EQ(
            share.first_job[half] * layer.down_strips + share.first_item[half],
            down[half]);
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

TEST(OneTokenSharesTest, APartIsEarlyWhereOneTokenHasManyJobs) {
  EXPECT_EQ(EarlyPart(1, 192, 132), kEarlyPart);
  EXPECT_EQ(EarlyPart(1, 96, 132), 1);
  EXPECT_EQ(EarlyPart(1, 0, 132), 1);
  EXPECT_EQ(EarlyPart(2, 192, 66), 1);
}

TEST(OneTokenSharesTest, WarpsHaveAboutAnItemOfDownEach) {
  struct Case {
    int jobs, strips;
    bool whole;
    int warps, row_blocks, of_job;
  };
  constexpr Case kCases[] = {
      {192, 112, true, 24 * 132, 7, 16}, {192, 112, false, 24 * 132, 1, 112},
      {192, 112, true, 24 * 16, 7, 16},  {96, 112, true, 24 * 132, 3, 40},
      {48, 112, true, 24 * 132, 2, 56},  {12, 112, true, 24 * 132, 1, 112},
      {0, 112, true, 24 * 132, 1, 112},  {5, 9, false, 24, 1, 9}};
  for (const Case& c : kCases) {
    const DownItems items = ChooseDownItems(c.jobs, c.strips, c.whole, c.warps);
    EXPECT_EQ(items.row_blocks, c.row_blocks) << c.jobs;
    EXPECT_EQ(items.of_job, c.of_job) << c.jobs;
  }
}

TEST(OneTokenSharesTest, TokensHaveRunsOfBlocksOfAboutOneLength) {
  for (const int blocks : {1, 2, 8, 108, 132, 148}) {
    for (int tokens = 1; tokens <= blocks && tokens <= 8; ++tokens) {
      SCOPED_TRACE(testing::Message() << tokens << " on " << blocks);
      TokenBlock next = {0, 0, 0};
      for (int block = 0; block < blocks; ++block) {
        const TokenBlock own = TokenOfBlock(tokens, block, blocks);
        ASSERT_EQ(own.token, next.token);
        ASSERT_EQ(own.block, next.block);
        ASSERT_GE(own.blocks, blocks / tokens);
        ASSERT_LE(own.blocks, blocks / tokens + 1);
        next = own.block + 1 < own.blocks
                   ? TokenBlock{own.token, own.block + 1, own.blocks}
                   : TokenBlock{own.token + 1, 0, 0};
      }
      EXPECT_EQ(next.token, tokens);
    }
  }
}

TEST(OneTokenSharesTest, TokensAreAloneWhereTheyShareLittleAndWantAsMuch) {
  EXPECT_TRUE(SoonerAlone(8, 192, 1536, 1447));   // 16 of 896 experts each
  EXPECT_FALSE(SoonerAlone(9, 192, 1728, 1600));  // too many tokens
  EXPECT_FALSE(SoonerAlone(2, 192, 384, 192));    // the same ones
  EXPECT_FALSE(SoonerAlone(4, 40, 100, 100));     // one has most of them
  EXPECT_TRUE(SoonerAlone(4, 28, 100, 100));
}

TEST(OneTokenSharesTest, SharesDifferByOne) {
  for (const Layer& layer : kLayers) {
    const int early = (layer.jobs + kEarlyPart - 1) / kEarlyPart;
    const int strips[2] = {early * layer.down_strips,
                           (layer.jobs - early) * layer.down_strips};
    for (int block = 0; block < layer.blocks; ++block) {
      const BlockShare share = Share(layer, block);
      for (int half = 0; half < 2; ++half) {
        EXPECT_GE(share.num_down[half], strips[half] / layer.blocks);
        EXPECT_LE(share.num_down[half], strips[half] / layer.blocks + 1);
      }
    }
  }
}

TEST(OneTokenSharesTest, NobodyHasAnythingOfNoJobs) {
  const BlockShare share = Share({0, 112, 132}, 3);
  for (int half = 0; half < 2; ++half) {
    EXPECT_EQ(share.end_up[half] - share.first_up[half], 0);
    EXPECT_EQ(share.num_down[half], 0);
  }
}

}  // namespace
}  // namespace deltafin::cuda
