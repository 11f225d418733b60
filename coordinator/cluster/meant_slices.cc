#include "coordinator/cluster/meant_slices.h"

namespace deltafin {

MeantSlices::MeantSlices(const Placement& placement, const ModelExtent& extent)
    : cut_(placement.cut()) {
  nothing_.homes = std::make_shared<SliceSet>(extent.NoSlices());
  nothing_.all = nothing_.homes;
  slots_.resize(placement.num_slots(), nothing_);
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    if (!placement.has_share(slot)) continue;
    slots_[slot].homes = std::make_shared<SliceSet>(extent.NoSlices());
    slots_[slot].all = std::make_shared<SliceSet>(extent.NoSlices());
  }
  std::vector<NodeRun> runs;
  for (int layer = 0; layer < extent.num_layers; ++layer) {
    for (int expert = 0; expert < extent.num_experts; ++expert) {
      const ExpertKey key = {extent.first_layer + layer, expert};
      placement.Cut(key, 0, &runs);
      for (const NodeRun& run : runs) {
        slots_[run.node].homes->Add(key, run.slices);
      }
      for (int copy = 0; copy < placement.options().copies; ++copy) {
        if (copy > 0) placement.Cut(key, copy, &runs);
        for (const NodeRun& run : runs) {
          slots_[run.node].all->Add(key, run.slices);
        }
      }
    }
  }
}

bool MeantSlices::IsOf(const Placement& placement) const {
  return placement.cut() == cut_;
}

}  // namespace deltafin
