#include "coordinator/engine/route_heat.h"

#include <algorithm>
#include <cmath>

namespace deltafin {
namespace {

// Counters are brought back to 1 before their unit leaves the range in which
// floats add it exactly enough.
constexpr double kLargestUnit = 1 << 20;

}  // namespace

RouteHeat::RouteHeat(const ModelExtent& extent)
    : extent_(extent),
      counts_(static_cast<size_t>(extent.num_layers) * extent.num_experts) {}

void RouteHeat::Count(int layer, int num_tokens,
                      std::span<const int32_t> experts) {
  const int row = layer - extent_.first_layer;
  if (row < 0 || row >= extent_.num_layers) return;
  MutexLock lock(mutex_);
  if (row == 0) Age(num_tokens);
  float* const counts =
      counts_.data() + static_cast<size_t>(row) * extent_.num_experts;
  const auto unit = static_cast<float>(unit_);
  for (const int32_t expert : experts) {
    if (expert >= 0 && expert < extent_.num_experts) counts[expert] += unit;
  }
}

void RouteHeat::Age(int num_tokens) {
  unit_ *= std::exp2(std::min(num_tokens / kHalfLifeTokens, 20.0));
  if (unit_ < kLargestUnit) return;
  const auto scale = static_cast<float>(1 / unit_);
  for (float& count : counts_) count *= scale;
  unit_ = 1;
}

std::vector<float> RouteHeat::Snapshot() const {
  std::vector<float> counts;
  double unit = 1;
  {
    MutexLock lock(mutex_);
    counts = counts_;
    unit = unit_;
  }
  for (float& count : counts) count = static_cast<float>(count / unit);
  return counts;
}

}  // namespace deltafin
