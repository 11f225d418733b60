#include "tests/testing/fake_routed_experts.h"

#include <bit>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace deltafin::testing {

void AddFakeTerm(const FakeTerm& term, const float* latent, int latent_size,
                 int64_t* sums) {
  const uint64_t key = (uint64_t(term.layer) << 40) +
                       (uint64_t(term.expert) << 20) + uint64_t(term.slice) +
                       (uint64_t{std::bit_cast<uint32_t>(term.weight)} << 24);
  for (int i = 0; i < latent_size; ++i) {
    uint64_t z = key + std::bit_cast<uint32_t>(latent[i]);
    z = (z ^ z >> 31) * 0x9E3779B97F4A7C15;
    sums[i] += static_cast<int64_t>(z ^ z >> 29) >> 20;  // 44 bits, signed
  }
}

absl::Status FakeRoutedExperts::Start(uint64_t step, int layer,
                                      const RoutedTokens& routed) {
  step_ = step;
  layer_ = layer;
  ++layers_started_;
  const int width = shape_.latent_size;
  sums_.assign(size_t(routed.num_tokens) * width, 0);
  for (int token = 0; token < routed.num_tokens; ++token) {
    for (int k = 0; k < routed.top_k; ++k) {
      const size_t choice = size_t(token) * routed.top_k + k;
      for (int slice = 0; slice < shape_.num_slices(); ++slice) {
        AddFakeTerm(
            {layer, routed.experts[choice], slice, routed.weights[choice]},
            &routed.latent[size_t(token) * width], width,
            &sums_[size_t(token) * width]);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const int64_t>> FakeRoutedExperts::Wait(
    const std::function<bool()>& cancelled) {
  mutex_.Lock();
  waiting_ = true;
  changed_.NotifyAll();
  while (held_) {
    mutex_.Unlock();
    if (cancelled()) return absl::CancelledError("step abandoned");
    mutex_.Lock();
    changed_.WaitUntil(mutex_, absl::Now() + absl::Milliseconds(1));
  }
  waiting_ = false;
  mutex_.Unlock();
  if (before_answer) RETURN_IF_ERROR(before_answer(step_, layer_));
  return std::span<const int64_t>(sums_);
}

void FakeRoutedExperts::Abandon(uint64_t) {
  MutexLock lock(mutex_);
  waiting_ = false;
  ++steps_abandoned_;
}

void FakeRoutedExperts::Hold() {
  MutexLock lock(mutex_);
  held_ = true;
}

void FakeRoutedExperts::Release() {
  MutexLock lock(mutex_);
  held_ = false;
  changed_.NotifyAll();
}

void FakeRoutedExperts::AwaitHeld() {
  MutexLock lock(mutex_);
  while (!(held_ && waiting_)) changed_.Wait(mutex_);
}

}  // namespace deltafin::testing
