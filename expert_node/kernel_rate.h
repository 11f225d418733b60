// expert_node/kernel_rate.h
//
// How fast this machine's threads put experts through a kernel.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/expert_kernel.h"

namespace deltafin {

// Bytes of slices a second for one token, from memory, on all threads: the best
// of some rounds over 32 MiB of generated slices. What counts is the threads'
// own CPU time, so that other programs, as nodes that start at the same moment,
// take nothing from it but their share of memory bandwidth; threads beyond the
// CPUs this process may use add nothing. Takes some `longest`, whole rounds.
// Errors: RESOURCE_EXHAUSTED.
absl::StatusOr<double> MeasureKernelRate(const ExpertKernel& kernel,
                                         const ExpertShape& shape,
                                         const SituParams& situ,
                                         int num_threads,
                                         absl::Duration longest);

}  // namespace deltafin
