#include "coordinator/cluster/member_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// A rate that changes by less stays in use.
constexpr double kNoticeable = 0.1;

double RateInUse(double in_use, double measured) {
  const bool is_noticed = std::abs(measured - in_use) > kNoticeable * in_use;
  return is_noticed ? measured : in_use;
}

// The mean of what is measured stands for what is not; `otherwise` where
// nothing is.
std::vector<double> Complete(std::span<const MemberSpeed> speeds,
                             double MemberSpeed::*rate, double otherwise) {
  double sum = 0;
  int measured = 0;
  for (const MemberSpeed& speed : speeds) {
    if (speed.*rate <= 0) continue;
    sum += speed.*rate;
    ++measured;
  }
  if (measured > 0) otherwise = sum / measured;
  std::vector<double> complete;
  for (const MemberSpeed& speed : speeds) {
    complete.push_back(speed.*rate > 0 ? speed.*rate : otherwise);
  }
  return complete;
}

std::vector<double> Limits(std::span<const MemberSpeed> speeds) {
  constexpr double kUnknown = std::numeric_limits<double>::infinity();
  std::vector<double> limits = Complete(speeds, &MemberSpeed::read, kUnknown);
  const std::vector<double> kernels =
      Complete(speeds, &MemberSpeed::kernel, kUnknown);
  for (size_t i = 0; i < limits.size(); ++i) {
    limits[i] = std::min(limits[i], kernels[i]);
    if (limits[i] == kUnknown) limits[i] = 1;
  }
  return limits;
}

std::vector<size_t> SlowestFirst(const std::vector<double>& speed) {
  std::vector<size_t> order(speed.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return speed[a] < speed[b]; });
  return order;
}

// Gives machines that are alike the same speed, the mean of theirs.
void Level(const std::vector<size_t>& slowest_first,
           std::vector<double>* speed) {
  for (size_t begin = 0; begin < slowest_first.size();) {
    const double slowest = (*speed)[slowest_first[begin]];
    double sum = 0;
    size_t end = begin;
    while (end < slowest_first.size() &&
           (*speed)[slowest_first[end]] <= kAlike * slowest) {
      sum += (*speed)[slowest_first[end++]];
    }
    const double mean = sum / static_cast<double>(end - begin);
    for (; begin < end; ++begin) (*speed)[slowest_first[begin]] = mean;
  }
}

}  // namespace

MemberSpeed SpeedInUse(const MemberSpeed& in_use, const MemberSpeed& measured) {
  return {RateInUse(in_use.read, measured.read),
          RateInUse(in_use.kernel, measured.kernel)};
}

std::vector<MemberWeight> WeighMembers(std::span<const MemberSpeed> speeds,
                                       int slices_per_layer) {
  std::vector<double> speed = Limits(speeds);
  const std::vector<size_t> slowest_first = SlowestFirst(speed);
  Level(slowest_first, &speed);
  std::vector<MemberWeight> weights(speed.size());
  for (size_t i = 0; i < speed.size(); ++i) weights[i].weight = speed[i];
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
