// bench/throttled_experts.h
//
// Routed experts of this process behind a disk of some rate.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <utility>
#include <vector>

#include "coordinator/engine/forward_pass.h"

namespace deltafin::bench {

struct ThrottleOptions {
  double read_rate = 0;  // bytes a second; 0: all in memory
  int tier = 0;          // experts that stay in memory
};

// Experts that are not among the last `tier` used take the time of a read.
// Engine thread only.
class ThrottledExperts final : public RoutedExperts {
 public:
  using Compute = std::function<absl::StatusOr<std::vector<int64_t>>(
      int layer, const RoutedTokens& routed)>;

  ThrottledExperts(const ThrottleOptions& options, double expert_bytes,
                   Compute compute)
      : options_(options),
        expert_bytes_(expert_bytes),
        compute_(std::move(compute)) {}

  absl::Status Start(uint64_t step, int layer,
                     const RoutedTokens& routed) override;
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& /*cancelled*/) override {
    return std::span<const int64_t>(sums_);
  }
  void Abandon(uint64_t /*step*/) override {}
  ExpertTimings TakeTimings() override {
    trace_.Clear();
    return std::exchange(timings_, {});
  }
  const ExpertTrace& trace() const override { return trace_; }
  // Seconds that all reads so far were to take.
  double charged_seconds() const { return charged_; }

 private:
  int CountMisses(int layer, const RoutedTokens& routed);

  const ThrottleOptions options_;
  const double expert_bytes_;
  const Compute compute_;
  std::vector<int64_t> sums_;
  std::list<std::pair<int, int32_t>> resident_;  // last used first
  ExpertTrace trace_;
  ExpertTimings timings_;
  double charged_ = 0;
};

}  // namespace deltafin::bench
