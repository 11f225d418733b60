// spine_node/cpu/linear.h
//
// Products of the spine's matrices with the rows of a token group, shared over
// the threads by blocks of 256 matrix rows. Not thread-safe.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/thread_pool.h"
#include "kernels/linear_kernel.h"
#include "spine_node/cpu/operator_status.h"

namespace deltafin {

// y[t * ldy + r] for every row r of the weights.
struct Product {
  const char* name = "";  // for errors; static
  const LinearWeights& weights;
  float* y = nullptr;
  size_t ldy = 0;
};

// Rows of activations, x[t * ldx + c].
struct Activations {
  const float* x = nullptr;
  size_t ldx = 0;
  int num_tokens = 0;
};

class Linear {
 public:
  // Widest inputs: max_cols for Run, max_head_cols for RunOnWorker; both for
  // max_tokens tokens. Errors: RESOURCE_EXHAUSTED.
  struct Limits {
    int max_tokens = 0;
    int max_cols = 0;
    int max_head_cols = 0;
  };
  static absl::StatusOr<std::unique_ptr<Linear>> Create(
      const LinearKernel& kernel, ThreadPool& threads, const Limits& limits);

  // Several products of the same activations, over all threads. REQUIRES: all
  // weights have the same number of columns.
  OperatorStatus Run(const Activations& x,
                     std::initializer_list<Product> products);
  // One whole product on the worker that calls (inside ParallelFor).
  OperatorStatus RunOnWorker(int worker, const Activations& x,
                             const Product& product);

 private:
  Linear(const LinearKernel& kernel, ThreadPool& threads)
      : kernel_(kernel), threads_(threads) {}
  OperatorStatus Prepare(const Activations& x, const Product& product);

  const LinearKernel& kernel_;
  ThreadPool& threads_;
  std::array<AlignedBuffer, 3> prepared_;  // by WeightFormat
  std::vector<AlignedBuffer> worker_prepared_;
};

}  // namespace deltafin
