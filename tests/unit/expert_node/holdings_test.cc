#include "expert_node/holdings.h"

#include <gtest/gtest.h>

#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

ModelSpec SpecOfRecords() {
  ModelSpec spec = SmallSpec(kRaggedShape);
  spec.num_hidden_layers = 4;
  return spec;
}

TEST(HoldingsTest, TellTheSlicesOfARecordStore) {
  const DiskFolder folder;
  const ModelSpec spec = SpecOfRecords();
  auto records = OpenRecords(folder.path(), kRaggedShape);
  const v1::Holdings empty = HoldingsOf(spec, *records);
  EXPECT_FALSE(empty.everything());
  EXPECT_GT(empty.version(), 0u);
  ASSERT_TRUE(InstallGenerated(*records, {1, 2}, {0, 1}).ok());
  ASSERT_TRUE(InstallGenerated(*records, {3, 7}, {1, 2}).ok());
  const v1::Holdings holdings = HoldingsOf(spec, *records);
  EXPECT_GT(holdings.version(), empty.version());
  EXPECT_EQ(holdings.bytes_per_expert(), 1u);
  ASSERT_EQ(holdings.layers_size(), 3);
  EXPECT_EQ(holdings.layers(0), std::string("\0\0\1\0\0\0\0\0", 8));
  EXPECT_EQ(holdings.layers(1), std::string(8, '\0'));
  EXPECT_EQ(holdings.layers(2), std::string("\0\0\0\0\0\0\0\6", 8));
  EXPECT_EQ(CountHeldSlices(spec, *records), 3u);
  ASSERT_TRUE(records->Remove({3, 7}, {1, 2}).ok());
  EXPECT_GT(records->held_version(), holdings.version());
  EXPECT_EQ(CountHeldSlices(spec, *records), 1u);
}

TEST(HoldingsTest, AStoreWithAllOfTheModelSaysSo) {
  const GeneratedStore store(kRaggedShape);
  const v1::Holdings holdings = HoldingsOf(SpecOfRecords(), store);
  EXPECT_TRUE(holdings.everything());
  EXPECT_EQ(holdings.layers_size(), 0);
  EXPECT_EQ(CountHeldSlices(SpecOfRecords(), store), 3u * 8 * 3);
}

}  // namespace
}  // namespace deltafin
