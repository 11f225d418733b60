// coordinator/engine/route_heat.h
//
// How often the router chose each expert lately. Four bytes an expert.
// Thread-safe: the engine thread counts, anybody looks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/cluster/cluster_health.h"

namespace deltafin {

class RouteHeat {
 public:
  // After so many tokens a choice counts half: what is seen follows the text
  // within some seconds even at one token a second.
  static constexpr double kHalfLifeTokens = 128;

  // An extent without layers: nothing is counted.
  explicit RouteHeat(const ModelExtent& extent);

  // The choices [T, K] of a layer's tokens. What the extent does not have is
  // not counted. A step begins with the first layer.
  void Count(int layer, int num_tokens, std::span<const int32_t> experts);

  // Choices of every expert, [layers, experts], those before halved every
  // kHalfLifeTokens.
  std::vector<float> Snapshot() const;
  const ModelExtent& extent() const { return extent_; }

 private:
  void Age(int num_tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ModelExtent extent_;
  mutable Mutex mutex_;
  // In units that shrink: a choice now adds unit_, which grows as those before
  // fade, so that aging touches no counter.
  std::vector<float> counts_ ABSL_GUARDED_BY(mutex_);
  double unit_ ABSL_GUARDED_BY(mutex_) = 1;
};

}  // namespace deltafin
