#include "coordinator/cluster/member_weights.h"

#include <algorithm>
#include <numeric>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

double Sustained(const MemberSpeed& speed) {
  if (speed.read <= 0) return std::max(speed.kernel, 0.0);
  if (speed.kernel <= 0) return speed.read;
  return std::min(speed.read, speed.kernel);
}

// The mean of what is measured stands for what is not.
std::vector<double> Complete(std::span<const MemberSpeed> speeds) {
  std::vector<double> complete;
  double sum = 0;
  int measured = 0;
  for (const MemberSpeed& speed : speeds) {
    complete.push_back(Sustained(speed));
    sum += complete.back();
    measured += complete.back() > 0;
  }
  const double otherwise = measured == 0 ? 1 : sum / measured;
  for (double& speed : complete) {
    if (speed <= 0) speed = otherwise;
  }
  return complete;
}

}  // namespace

std::vector<MemberWeight> WeighMembers(std::span<const MemberSpeed> speeds,
                                       int slices_per_layer) {
  const std::vector<double> speed = Complete(speeds);
  std::vector<MemberWeight> weights(speed.size());
  for (size_t i = 0; i < speed.size(); ++i) weights[i].weight = speed[i];

  std::vector<size_t> slowest_first(speed.size());
  std::iota(slowest_first.begin(), slowest_first.end(), size_t{0});
  std::stable_sort(slowest_first.begin(), slowest_first.end(),
                   [&](size_t a, size_t b) { return speed[a] < speed[b]; });
  double total = std::accumulate(speed.begin(), speed.end(), 0.0);
  for (size_t i = 0; i + 1 < slowest_first.size(); ++i) {
    const double slowest = speed[slowest_first[i]];
    const double next = speed[slowest_first[i + 1]];
    const double with = slices_per_layer / total + 1 / slowest;
    const double without = slices_per_layer / (total - slowest) + 1 / next;
    if (with <= without) break;
    weights[slowest_first[i]] = {
        0, fmt::format("left out: at {:.3g} GB/s a layer would take {:.2g} "
                       "times as long with it",
                       slowest / 1e9, with / without)};
    total -= slowest;
  }
  return weights;
}

}  // namespace deltafin
