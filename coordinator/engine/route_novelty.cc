#include "coordinator/engine/route_novelty.h"

#include <span>

namespace deltafin {
namespace {

constexpr double kWeight = 0.005;  // 200 layers: about two tokens of K3

// Of two ascending lists.
int CountCommon(std::span<const int32_t> a, std::span<const int32_t> b) {
  int common = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i] == b[j]) ++common;
    const bool advance_a = a[i] <= b[j];
    const bool advance_b = b[j] <= a[i];
    i += advance_a ? 1 : 0;
    j += advance_b ? 1 : 0;
  }
  return common;
}

}  // namespace

void RouteNovelty::Add(int layer, const RoutedTokens& routed) {
  if (routed.num_tokens != 1 || routed.top_k < 1) return;
  if (last_.size() <= static_cast<size_t>(layer)) last_.resize(layer + 1);
  std::vector<int32_t>& last = last_[layer];
  if (!last.empty()) {
    const double fresh =
        1 -
        static_cast<double>(CountCommon(last, routed.experts)) / routed.top_k;
    fresh_ = is_known_ ? fresh_ + kWeight * (fresh - fresh_) : fresh;
    is_known_ = true;
  }
  last.assign(routed.experts.begin(), routed.experts.end());
}

}  // namespace deltafin
