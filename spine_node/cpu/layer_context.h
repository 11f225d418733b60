// spine_node/cpu/layer_context.h
//
// What every layer computes with. References outlive the layers.
#pragma once

#include "common/base/model_spec.h"
#include "common/base/thread_pool.h"
#include "kernels/elementwise.h"
#include "spine_node/cpu/linear.h"
#include "spine_node/spine_types.h"

namespace deltafin {

// A step is worked through in groups of at most this many tokens, so that the
// scratch of a layer does not grow with the prompt. Larger groups read the
// weights less often: 128 tokens make every matrix product bound by
// arithmetic up to about 100 GB/s of memory bandwidth per 50 GMAC/s and core.
inline constexpr int kTokenGroup = 128;

struct LayerContext {
  const ModelSpec& spec;
  const ElementwiseKernel& ops;
  ThreadPool& threads;
  Linear& linear;
  SpineTimings& timings;
};

// Runs body(row) for rows [0, n), on this thread alone if there is one row.
template <typename Body>
void ForEachRow(ThreadPool& threads, int n, Body body) {
  if (n == 1) {
    body(0);
    return;
  }
  threads.ParallelFor(n,
                      [&](int64_t row, int) { body(static_cast<int>(row)); });
}

}  // namespace deltafin
