// tests/client/slow_prefill.h
//
// A model that reads prompts slowly, and a clock that runs fast enough to wait
// for it.
#pragma once

#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "tests/testing/fake_routed_experts.h"

namespace deltafin::testing {

// Time that goes by `rate` times as fast as the machine's, from now on.
// Thread-safe.
class FastClock final : public Clock {
 public:
  explicit FastClock(double rate)
      : rate_(rate),
        begun_(SystemClock().Elapsed()),
        begun_at_(SystemClock().Now()) {}

  absl::Time Now() const override { return begun_at_ + Elapsed(); }
  absl::Duration Elapsed() const override {
    return (SystemClock().Elapsed() - begun_) * rate_;
  }

 private:
  const double rate_;
  const absl::Duration begun_;
  const absl::Time begun_at_;
};

// Experts that take `per_layer` of the clock for each layer of a step in which
// a prompt is read. Engine thread only.
class SlowPrefill final : public FakeRoutedExperts {
 public:
  // More tokens than sequences write at once, fewer than a chat's prompt has.
  static constexpr int kPromptTokens = 12;

  // `clock` must outlive this.
  SlowPrefill(ExpertShape shape, absl::Duration per_layer, const Clock& clock)
      : FakeRoutedExperts(shape), per_layer_(per_layer), clock_(clock) {}

  absl::Status Start(uint64_t step, int layer,
                     const RoutedTokens& routed) override {
    const bool reads_prompt = routed.num_tokens >= kPromptTokens;
    ready_at_ = clock_.Elapsed() + (reads_prompt ? per_layer_ : kNothing);
    return FakeRoutedExperts::Start(step, layer, routed);
  }
  absl::StatusOr<std::span<const int64_t>> Wait(
      const std::function<bool()>& cancelled) override;

 private:
  static constexpr absl::Duration kNothing = absl::ZeroDuration();

  const absl::Duration per_layer_;
  const Clock& clock_;
  absl::Duration ready_at_;
};

}  // namespace deltafin::testing
