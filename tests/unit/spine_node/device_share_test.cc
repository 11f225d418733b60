#include "spine_node/device_share.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

ModelSpec NanoSpec() {
  auto spec = ModelSpec::Load(DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return *std::move(spec);
}

constexpr DeviceDemand kDemand = {.max_sequences = 2, .context_tokens = 64};

TEST(DeviceShareTest, HoldsEverythingWithoutALimit) {
  const DeviceShare share = ChooseDeviceShare(NanoSpec(), kDemand, {});
  EXPECT_EQ(share.num_layers, 13);
  EXPECT_TRUE(share.has_head);
}

TEST(DeviceShareTest, HoldsNothingInNothing) {
  const DeviceShare share = ChooseDeviceShare(NanoSpec(), kDemand, 0);
  EXPECT_EQ(share.num_layers, 0);
  EXPECT_FALSE(share.has_head);
  EXPECT_EQ(share.bytes, 0u);
}

TEST(DeviceShareTest, TakesWhatTheLimitHoldsAndNoByteMore) {
  const ModelSpec spec = NanoSpec();
  const uint64_t all = ChooseDeviceShare(spec, kDemand, {}).bytes;
  int most = 0;
  for (uint64_t limit = 0; limit <= all; limit += all / 97) {
    const DeviceShare share = ChooseDeviceShare(spec, kDemand, limit);
    EXPECT_LE(share.bytes, limit);
    EXPECT_GE(share.num_layers, most);
    most = share.num_layers;
    if (share.num_layers < spec.num_hidden_layers) {
      EXPECT_FALSE(share.has_head);
    }
  }
  EXPECT_EQ(most, spec.num_hidden_layers);
  EXPECT_FALSE(ChooseDeviceShare(spec, kDemand, all - 1).has_head);
  EXPECT_TRUE(ChooseDeviceShare(spec, kDemand, all).has_head);
}

TEST(DeviceShareTest, FloatsTakeMoreThanBf16AndThatMoreThanInt8) {
  const ModelSpec spec = NanoSpec();
  DeviceDemand demand = kDemand;
  const uint64_t bf16 = ChooseDeviceShare(spec, demand, {}).bytes;
  demand.precision = SpinePrecision::kInt8;
  const uint64_t int8 = ChooseDeviceShare(spec, demand, {}).bytes;
  demand = kDemand;
  demand.values = DeviceValues::kFloat;
  const uint64_t floats = ChooseDeviceShare(spec, demand, {}).bytes;
  EXPECT_LT(int8, bf16);
  EXPECT_LT(bf16, floats);
}

TEST(DeviceShareTest, EverySequenceTakesTheSame) {
  const ModelSpec spec = NanoSpec();
  const auto bytes_of = [&spec](int sequences) {
    return ChooseDeviceShare(
               spec, {.max_sequences = sequences, .context_tokens = 100}, {})
        .bytes;
  };
  // 9 KDA layers of 4 heads of 32, 4 MLA layers of 100 rows of 80.
  constexpr uint64_t kFloats = 9 * 128 * (32 + 9) + 4 * 100 * 80;
  EXPECT_EQ(bytes_of(3) - bytes_of(2), kFloats * sizeof(float));
}

}  // namespace
}  // namespace deltafin
