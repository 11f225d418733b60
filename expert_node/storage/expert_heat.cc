#include "expert_node/storage/expert_heat.h"

#include <cmath>

namespace deltafin {

void ExpertHeat::Use(ExpertKey expert) {
  // One at the beginning, so that a use is never 0.
  const double now = 1 + static_cast<double>(requests_) / half_life_;
  const auto [heat, is_new] = heat_.try_emplace(expert, now);
  if (!is_new) {
    heat->second = now + std::log2(1 + std::exp2(heat->second - now));
  }
}

double ExpertHeat::Of(ExpertKey expert) const {
  const auto found = heat_.find(expert);
  return found == heat_.end() ? 0 : found->second;
}

}  // namespace deltafin
