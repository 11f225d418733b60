#include "coordinator/engine/hedge_policy.h"

#include <algorithm>

namespace deltafin {
namespace {

constexpr double kUsual = 0.95;
constexpr double kLate = 1.5;
// Until that many answers are known a part is late after kUnknown times what is
// expected.
constexpr int64_t kKnown = 32;
constexpr double kUnknown = 4;
// The percentile is taken anew after so many answers.
constexpr int64_t kRefresh = 16;
// Below this a second node is no sooner done than the first.
constexpr absl::Duration kLeast = absl::Milliseconds(2);
// Budget of so many layers is kept.
constexpr double kKeptLayers = 500;

}  // namespace

void HedgePolicy::Earn(int64_t slices) {
  const double earned = budget_ * static_cast<double>(slices);
  most_ = std::max(most_, kKeptLayers * earned);
  allowed_ = std::min(allowed_ + earned, most_);
}

bool HedgePolicy::Spend(int64_t slices) {
  const auto cost = static_cast<double>(slices);
  if (cost > allowed_) return false;
  allowed_ -= cost;
  return true;
}

void HedgePolicy::Observe(int node, absl::Duration elapsed,
                          absl::Duration expected) {
  if (expected <= absl::ZeroDuration()) return;
  if (nodes_.size() <= static_cast<size_t>(node)) nodes_.resize(node + 1);
  Node& of = nodes_[node];
  of.ratios.Add(absl::Seconds(absl::FDivDuration(elapsed, expected)));
  if (of.num_observed++ % kRefresh != 0 && of.num_observed > kKnown) return;
  of.usual = 1e-6 * of.ratios.Percentile(kUsual);
}

void HedgePolicy::Forget(int node) {
  if (static_cast<size_t>(node) < nodes_.size()) nodes_[node] = Node();
}

absl::Duration HedgePolicy::LateAfter(int node, absl::Duration expected) const {
  double times = kUnknown;
  if (static_cast<size_t>(node) < nodes_.size() &&
      nodes_[node].num_observed >= kKnown) {
    times = kLate * std::max(1.0, nodes_[node].usual);
  }
  return std::max(kLeast, times * expected);
}

}  // namespace deltafin
