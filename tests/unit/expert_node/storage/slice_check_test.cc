#include "expert_node/storage/slice_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/expert_tiles.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

class SliceCheckTest : public ::testing::TestWithParam<ExpertShape> {
 protected:
  std::vector<uint8_t> Slice(int slice) const {
    return PackedSlices(GetParam(), {2, 3}, {slice, 1})[0];
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, SliceCheckTest,
                         ::testing::Values(kRaggedShape, kPagedShape,
                                           kWideShape));

TEST_P(SliceCheckTest, MatricesFillTheSlice) {
  for (int slice = 0; slice < GetParam().num_slices(); ++slice) {
    size_t bytes = 0;
    for (int m = 0; m < kSliceMatrices; ++m) {
      bytes += SliceMatrixBytes(GetParam(), slice, m);
    }
    EXPECT_EQ(bytes, Slice(slice).size());
  }
}

TEST_P(SliceCheckTest, TakesTheDigestOfTheWholeSlice) {
  for (int slice = 0; slice < GetParam().num_slices(); ++slice) {
    const std::vector<uint8_t> bytes = Slice(slice);
    EXPECT_TRUE(
        CheckSlice(GetParam(), slice, bytes.data(), Xxh3Digest(bytes)).ok());
  }
}

TEST_P(SliceCheckTest, FindsAnotherByteInAnyMatrix) {
  std::vector<uint8_t> bytes = Slice(0);
  const Xxh128 digest = Xxh3Digest(bytes);
  size_t end = 0;
  for (int m = 0; m < kSliceMatrices; ++m) {
    end += SliceMatrixBytes(GetParam(), 0, m);
    bytes[end - 1] ^= 1;
    const absl::Status status = CheckSlice(GetParam(), 0, bytes.data(), digest);
    EXPECT_TRUE(absl::IsDataLoss(status)) << m;
    EXPECT_THAT(std::string(status.message()), HasSubstr("digest"));
    bytes[end - 1] ^= 1;
  }
}

TEST_P(SliceCheckTest, NamesTheNanScaleOfAnyMatrix) {
  std::vector<uint8_t> bytes = Slice(0);
  size_t begin = 0;
  for (int m = 0; m < kSliceMatrices; ++m) {
    const uint8_t before = bytes[begin];
    bytes[begin] = 255;  // a tile begins with its scales
    const absl::Status status =
        CheckSlice(GetParam(), 0, bytes.data(), Xxh3Digest(bytes));
    EXPECT_TRUE(absl::IsDataLoss(status)) << m;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(fmt::format("(NaN) at byte {} of slice 0", begin)));
    bytes[begin] = before;
    begin += SliceMatrixBytes(GetParam(), 0, m);
  }
}

}  // namespace
}  // namespace deltafin
