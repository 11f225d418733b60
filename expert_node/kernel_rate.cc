#include "expert_node/kernel_rate.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "common/base/thread_pool.h"

namespace deltafin {
namespace {

constexpr size_t kBytes = size_t{32} << 20;
// As a scale 2^-11, as two values 6 and 2.
constexpr int kWeightByte = 0x74;
// Keeps the sums of all rounds far from overflow.
constexpr float kRouteWeight = 0x1p-20f;

constexpr size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

absl::Duration ThreadCpuTime() {
  timespec now;
  CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return absl::DurationFromTimespec(now);
}

// Generated slices, and what a thread needs for its part of them.
class KernelTrial {
 public:
  static absl::StatusOr<std::unique_ptr<KernelTrial>> Create(
      const ExpertKernel& kernel, const ExpertShape& shape,
      const SituParams& situ, int num_threads) {
    std::unique_ptr<KernelTrial> self(
        new KernelTrial(kernel, shape, situ, num_threads));
    const auto threads = static_cast<size_t>(num_threads);
    ASSIGN_OR_RETURN(self->slices_,
                     AlignedBuffer::Allocate(threads * self->num_slices_ *
                                             self->slice_stride_));
    ASSIGN_OR_RETURN(self->own_,
                     AlignedBuffer::Allocate(
                         threads * (self->scratch_bytes_ + self->sums_bytes_)));
    ASSIGN_OR_RETURN(
        self->prepared_,
        AlignedBuffer::Allocate(kernel.prepared_bytes(shape.latent_size, 1)));
    std::memset(self->slices_.data(), kWeightByte, self->slices_.size());
    const std::vector<float> latent(shape.latent_size, 0.25f);
    const float* const row = latent.data();
    kernel.prepare(&row, shape.latent_size, 1, self->prepared_.data(), nullptr);
    return self;
  }

  // Bytes a second of CPU time.
  double RunPart(size_t thread) {
    uint8_t* const mine = own_.data() + thread * (scratch_bytes_ + sums_bytes_);
    int64_t* const sums = reinterpret_cast<int64_t*>(mine + scratch_bytes_);
    ExpertSliceArgs args{shape_,           situ_,         nullptr, {0, 1}, 1,
                         prepared_.data(), &kRouteWeight, &sums,   mine};
    const absl::Duration begin = ThreadCpuTime();
    for (size_t i = 0; i < num_slices_; ++i) {
      args.slices = slices_.data() + (thread * num_slices_ + i) * slice_stride_;
      kernel_.run_slices(args, nullptr);
    }
    const absl::Duration taken =
        std::max(ThreadCpuTime() - begin, absl::Nanoseconds(1));
    return static_cast<double>(num_slices_ * shape_.slice_offset(1)) /
           absl::ToDoubleSeconds(taken);
  }

 private:
  KernelTrial(const ExpertKernel& kernel, const ExpertShape& shape,
              const SituParams& situ, int num_threads)
      : kernel_(kernel),
        shape_(shape),
        situ_(situ),
        slice_stride_(Aligned(shape.slice_offset(1))),
        num_slices_(std::max<size_t>(1, kBytes / slice_stride_ / num_threads)),
        scratch_bytes_(Aligned(kernel.scratch_bytes(shape, 1))),
        sums_bytes_(Aligned(shape.latent_size * sizeof(int64_t))) {}

  const ExpertKernel& kernel_;
  const ExpertShape shape_;
  const SituParams situ_;
  const size_t slice_stride_;
  const size_t num_slices_;  // for each thread
  const size_t scratch_bytes_;
  const size_t sums_bytes_;
  AlignedBuffer slices_, own_, prepared_;
};

}  // namespace

absl::StatusOr<double> MeasureKernelRate(const ExpertKernel& kernel,
                                         const ExpertShape& shape,
                                         const SituParams& situ,
                                         int num_threads,
                                         absl::Duration longest) {
  ASSIGN_OR_RETURN(const std::unique_ptr<KernelTrial> trial,
                   KernelTrial::Create(kernel, shape, situ, num_threads));
  ThreadPool threads(num_threads, "kernel-rate");
  std::vector<double> rates(num_threads);
  const absl::Duration begin = SystemClock().Elapsed();
  double best = 0;
  while (best == 0 || SystemClock().Elapsed() - begin < longest) {
    threads.ParallelFor(num_threads, [&](int64_t part, int /*worker*/) {
      rates[part] = trial->RunPart(static_cast<size_t>(part));
    });
    best = std::max(best, std::accumulate(rates.begin(), rates.end(), 0.0));
  }
  const auto cpus = static_cast<double>(AllowedCpus().size());
  return best * std::min(1.0, cpus / num_threads);
}

}  // namespace deltafin
