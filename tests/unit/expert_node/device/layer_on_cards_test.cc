#include "expert_node/device/layer_on_cards.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/expert_node/device/card_machine.h"

namespace deltafin {
namespace {

// Otherwise a link that was slow once would never be tried again where few
// slices are missing.
TEST(LayerOnCardsTest, LearnsHowLongSlicesTakeFromAFew) {
  const ModelSpec spec = SmallSpec(kCardShape);
  CardMachine machine({});
  testing::HostCardOrders orders;
  CardLimits limits;
  limits.shape = kCardShape;
  limits.max_rows = 1;
  limits.max_routes = spec.num_experts_per_token * kCardSlices;
  limits.num_layer_slices = spec.num_experts * kCardSlices;
  limits.num_stages = 3;
  CardTierOptions options;
  options.most_slots = 8 * kCardSlices;
  options.memory.headroom_bytes = 0;
  auto tier = CardTier::Create(
      testing::MakeHostCard("host card", limits, orders), limits, options);
  ASSERT_TRUE(tier.ok()) << tier.status();
  HostPins pins(machine.tiers(), CardMachine::SlotBytes(), HostPinner(), 4096);
  SliceTimes times;
  ThreadPool threads(2, "test");
  LayerWork work = GeneratedWork(spec, 2, 1, 3);
  work.assignments.resize(1);
  work.assignment_end = {1};
  const MergedWork merged(work);
  const std::atomic<bool> cancelled{false};
  LayerWorkspace workspace;
  LayerRun run(merged, cancelled,
               {BestKernel().expert, spec.situ, kCardShape, 2}, workspace);
  CardTier* const tiers[] = {tier->get()};
  LayerOnCards layer(tiers, CardNode{machine.tiers(), pins, times, false},
                     CardWork{merged, run, threads});
  const CardOutcome outcome = layer.Run();
  EXPECT_TRUE(outcome.done);
  EXPECT_EQ(orders.num_copies, kCardSlices);
  EXPECT_GT(times.brought(0), absl::ZeroDuration());
}

}  // namespace
}  // namespace deltafin
