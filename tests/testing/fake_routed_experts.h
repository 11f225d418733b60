// tests/testing/fake_routed_experts.h
//
// Routed experts as integer hashes: the same terms whether summed here at once
// or by fake nodes slice by slice. One engine thread; Hold, Release and
// counters from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/engine/forward_pass.h"
#include "kernels/expert_weights.h"

namespace deltafin::testing {

// What is computed for one token by one slice of one expert.
struct FakeTerm {
  int layer = 0;
  int expert = 0;
  int slice = 0;
  float weight = 0;
};

// Adds the term's [L] i64 values for the token's latent row [L] to sums.
void AddFakeTerm(const FakeTerm& term, const float* latent, int latent_size,
                 int64_t* sums);

class FakeRoutedExperts : public RoutedExperts {
 public:
  explicit FakeRoutedExperts(ExpertShape shape) : shape_(shape) {}

  absl::Status Start(uint64_t step, int layer,
                     const RoutedTokens& routed) override;
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& cancelled) override;
  void Abandon(uint64_t step) override;
  ExpertTimings TakeTimings() override { return {0.125, 0.25, 0.5}; }
  const ExpertTrace& trace() const override { return trace_; }

  // Asked by each Wait before it answers; an error becomes Wait's. Set before
  // the engine starts.
  std::function<absl::Status(uint64_t step, int layer)> before_answer;

  // While held, Wait waits until it is released or cancelled.
  void Hold();
  void Release();
  // Blocks until a Wait is being held.
  void AwaitHeld();
  int steps_abandoned() const { return steps_abandoned_; }
  int layers_started() const { return layers_started_; }

 private:
  const ExpertShape shape_;
  const ExpertTrace trace_;
  uint64_t step_ = 0;
  int layer_ = 0;
  std::vector<int64_t> sums_;
  std::atomic<int> steps_abandoned_ = 0;
  std::atomic<int> layers_started_ = 0;
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin::testing
