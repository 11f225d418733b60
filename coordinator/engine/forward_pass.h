// coordinator/engine/forward_pass.h
//
// The layer loop: one step of tokens through spine and routed experts. Not
// thread-safe: the engine thread owns it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/engine/request_trace.h"
#include "coordinator/engine/route_novelty.h"
#include "spine_node/spine.h"

namespace deltafin {

// Where the time of the routed experts went, in seconds, summed over layers.
struct ExpertTimings {
  double read = 0;     // longest node per layer, as the nodes report
  double compute = 0;  // likewise
  double network = 0;  // waiting that neither reading nor computing explains
};

// Where the routed experts of a layer are computed: ExpertDispatcher, or a fake
// in tests.
class RoutedExperts {
 public:
  virtual ~RoutedExperts() = default;
  // Sends the layer's work away. `routed` stays valid until Wait or Abandon
  // returns.
  virtual absl::Status Start(uint64_t step, int layer,
                             const RoutedTokens& routed) = 0;
  // Between Start and Wait. Whether it would help to know what the next layer
  // will want; and the experts that it will probably want, in any order and
  // number. Never blocks.
  virtual bool WantsHints() const { return false; }
  virtual void Expect(int /*layer*/, std::span<const int32_t> /*experts*/) {}
  // Complete sums [T, L] i64; valid until the next Start. Errors name node,
  // layer and expert. `cancelled` is polled while waiting.
  virtual absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& cancelled) = 0;
  // Tells the nodes to forget the step; nothing of it is waited for any more.
  virtual void Abandon(uint64_t step) = 0;
  // Since the last call.
  virtual ExpertTimings TakeTimings() = 0;
  // Between steps, now and then: looks after connections. Never blocks.
  virtual void Tend() {}
  // Since TakeTimings was called.
  virtual const ExpertTrace& trace() const = 0;
};

// Seconds, summed over steps.
struct ForwardStats {
  SpineTimings spine;
  double experts_read = 0;  // these three as in ExpertTimings
  double experts_compute = 0;
  double network = 0;
  int64_t layers = 0;
};

class ForwardPass {
 public:
  // Both must outlive this.
  ForwardPass(Spine& spine, RoutedExperts& experts);

  Spine& spine() { return spine_; }

  // Runs one step over the slices and returns the logits rows they asked for
  // (spine.h). `cancelled` is asked between layers and while waiting for
  // experts; when it says true the step is abandoned with CANCELLED. On any
  // error the sequences' states are undefined.
  absl::StatusOr<std::span<const float>> Step(
      std::span<const SequenceSlice> slices,
      const std::function<bool()>& cancelled);

  // Between steps, now and then. By the engine thread.
  void Tend() { experts_.Tend(); }

  // Since construction. By the engine thread.
  const ForwardStats& stats() const { return stats_; }
  // Of the last step. By the engine thread.
  const StepTrace& last_step() const { return last_step_; }
  // See RouteNovelty. By the engine thread.
  double fresh_experts() const { return novelty_.fresh(); }

 private:
  absl::Status RunLayers(std::span<const SequenceSlice> slices,
                         const std::function<bool()>& cancelled);
  absl::Status RunLayer(int layer, const std::function<bool()>& cancelled);
  void CollectTimings();

  Spine& spine_;
  RoutedExperts& experts_;
  uint64_t step_ = 0;
  ForwardStats stats_;
  StepTrace last_step_;
  RouteNovelty novelty_;
};

}  // namespace deltafin
