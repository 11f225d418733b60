// tests/unit/kernels/expert_runner.h
//
// Runs slices of an expert case through the public table of a target.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernel_registry.h"
#include "tests/unit/kernels/expert_cases.h"

namespace deltafin {

struct RunResult {
  KernelStatus status = KernelStatus::kOk;
  int bad_token = -1;
  std::vector<int64_t> sums;  // [T, L]
};

// Tokens [first_token, first_token + num_tokens) through `run`. The kernel sees
// a buffer with exactly the bytes of the run, as another machine would. The
// sums start at initial_sum.
RunResult RunSlices(const KernelTarget& target, const ExpertCase& c,
                    int first_token, int num_tokens, SliceRun run,
                    int64_t initial_sum = 0);

// All slices, cut into num_runs runs that are added in an order drawn from
// `random`.
RunResult RunCut(const KernelTarget& target, const ExpertCase& c,
                 int num_tokens, int num_runs, XorShift64* random);

}  // namespace deltafin
