#include "expert_node/kernel_rate.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"

namespace deltafin {
namespace {

constexpr size_t kBytes = size_t{32} << 20;
// As a scale 2^-11, as two values 6 and 2.
constexpr int kWeightByte = 0x74;
// Keeps the sums of all rounds far from overflow.
constexpr float kRouteWeight = 0x1p-20f;

constexpr size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

absl::StatusOr<double> MeasureKernelRate(const ExpertKernel& kernel,
                                         const ExpertShape& shape,
                                         const SituParams& situ,
                                         int num_threads,
                                         absl::Duration longest) {
  const size_t slice_bytes = shape.slice_offset(1);
  const size_t num_slices =
      std::max<size_t>(1, kBytes / Aligned(slice_bytes) / num_threads);
  const size_t scratch_bytes = Aligned(kernel.scratch_bytes(shape, 1));
  const size_t sums_bytes = Aligned(shape.latent_size * sizeof(int64_t));
  ASSIGN_OR_RETURN(
      AlignedBuffer slices,
      AlignedBuffer::Allocate(num_threads * num_slices * Aligned(slice_bytes)));
  ASSIGN_OR_RETURN(
      AlignedBuffer own,
      AlignedBuffer::Allocate(num_threads * (scratch_bytes + sums_bytes)));
  ASSIGN_OR_RETURN(
      AlignedBuffer prepared,
      AlignedBuffer::Allocate(kernel.prepared_bytes(shape.latent_size, 1)));
  std::memset(slices.data(), kWeightByte, slices.size());
  const std::vector<float> latent(shape.latent_size, 0.25f);
  const float* const row = latent.data();
  kernel.prepare(&row, shape.latent_size, 1, prepared.data(), nullptr);

  ThreadPool threads(num_threads, "kernel-rate");
  const auto run = [&](int64_t task, int /*worker*/) {
    uint8_t* const mine = own.data() + task * (scratch_bytes + sums_bytes);
    int64_t* const sums = reinterpret_cast<int64_t*>(mine + scratch_bytes);
    ExpertSliceArgs args{shape,           situ,          nullptr, {0, 1}, 1,
                         prepared.data(), &kRouteWeight, &sums,   mine};
    for (size_t i = 0; i < num_slices; ++i) {
      args.slices =
          slices.data() + (task * num_slices + i) * Aligned(slice_bytes);
      kernel.run_slices(args, nullptr);
    }
  };
  const double round_bytes =
      static_cast<double>(num_threads * num_slices * slice_bytes);
  const absl::Duration begin = SystemClock().Elapsed();
  absl::Duration now = begin;
  double best = 0;
  while (best == 0 || now - begin < longest) {
    const absl::Duration before = now;
    threads.ParallelFor(num_threads, run);
    now = SystemClock().Elapsed();
    best = std::max(best, round_bytes / absl::ToDoubleSeconds(now - before));
  }
  return best;
}

}  // namespace deltafin
