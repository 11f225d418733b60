#include "bench/layer_compute.h"

#include <atomic>
#include <cstring>
#include <thread>

#include "kernels/kernel_registry.h"

namespace deltafin::bench {

LayerCompute::LayerCompute(int num_threads, int num_tokens)
    : kernel_(BestKernel().expert),
      num_threads_(num_threads),
      num_tokens_(num_tokens),
      prepared_(kernel_.prepared_bytes(kLatent, num_tokens)),
      weights_(num_tokens, 0.0625f),
      sums_(size_t{8} * kLatent * num_tokens * num_threads),
      scratch_bytes_((kernel_.scratch_bytes(kRecordShape, num_tokens) + 4095) /
                     4096 * 4096),
      scratch_(scratch_bytes_ * num_threads) {
  std::vector<float> x(size_t{kLatent} * num_tokens);
  std::vector<const float*> rows;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 2654435761u % 2048) / 1024.0f - 1.0f;
  }
  for (int t = 0; t < num_tokens; ++t) rows.push_back(&x[kLatent * t]);
  kernel_.prepare(rows.data(), kLatent, num_tokens, prepared_.data(), nullptr);
}

void LayerCompute::Run(SliceLease& lease, Work work) {
  std::memset(sums_.data(), 0, sums_.size());
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < num_threads_; ++t) {
    threads.emplace_back([&, t] {
      SetContractFloatingPointMode();
      for (size_t i = next++; i < lease.order().size(); i = next++) {
        const int unit = lease.order()[i];
        const auto slice = lease.Wait(unit);
        Require(slice.status());
        if (work == Work::kCompute) {
          Compute(*slice, unit % kRecordShape.num_slices(), t);
        }
        lease.Release(unit);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void LayerCompute::Compute(const uint8_t* bytes, int slice, int thread) {
  std::vector<int64_t*> rows;
  for (int t = 0; t < num_tokens_; ++t) {
    rows.push_back(sums_.as<int64_t>() +
                   size_t{kLatent} * (thread * num_tokens_ + t));
  }
  ExpertSliceArgs args;
  args.shape = kRecordShape;
  args.slices = bytes;
  args.run = {slice, 1};
  args.num_tokens = num_tokens_;
  args.prepared = prepared_.data();
  args.weights = weights_.data();
  args.sums = rows.data();
  args.scratch = scratch_.data() + thread * scratch_bytes_;
  if (kernel_.run_slices(args, nullptr) != KernelStatus::kOk) {
    Require(absl::InternalError("the kernel reported an error"));
  }
}

}  // namespace deltafin::bench
