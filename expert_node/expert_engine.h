// expert_node/expert_engine.h
//
// Computes the routed experts of one layer request: experts' slices from the
// store, kernel over threads, exact sums (docs/numerics.md section 8). How the
// work is cut shows in no bit of the result. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "expert_node/layer_run.h"
#include "expert_node/layer_work.h"
#include "expert_node/storage/tiered_store.h"
#include "kernels/kernel_registry.h"

namespace deltafin {

struct LayerResult {
  // OUT_OF_RANGE: inf, NaN or overflow; the lowest (expert, token) of this
  // request is in the two fields below and in the message. CANCELLED. Others:
  // the store's, naming layer, expert and file. On any error there are no sums.
  absl::Status status;
  int error_expert = 0;
  int error_token = 0;

  std::vector<int> tokens;  // tokens that had work, ascending: the rows
  std::string sums;         // i64 [rows, L], scale 2^40

  absl::Duration read;          // time the threads waited for bytes, on average
  absl::Duration compute;       // the rest
  int64_t slices_computed = 0;  // (token, expert, slice) triples
  uint64_t bytes_read = 0;
  int cache_hits = 0;  // slices
  int cache_misses = 0;
};

class ExpertEngine {
 public:
  // `kernel` and `store` must outlive the engine. Starts num_threads - 1
  // threads; the caller of Run is the first.
  ExpertEngine(const KernelTarget& kernel, const SituParams& situ,
               TieredStore& store, int num_threads);

  // Runs one request. One computes at a time, with all threads; other callers
  // wait for their turn. Blocks on disk where slices are not in RAM. Looks at
  // `cancelled` before each slice.
  LayerResult Run(const LayerWork& work, const std::atomic<bool>& cancelled);

  const KernelTarget& kernel() const { return kernel_; }
  int num_threads() const { return num_threads_; }

 private:
  void Compute(LayerRun& run, SliceLease& lease, LayerResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);

  const KernelTarget& kernel_;
  const SituParams situ_;
  TieredStore& store_;
  const int num_threads_;
  // The turn of a request: held while it computes, not a guard of shared data
  // that others wait to read.
  Mutex turn_;
  ThreadPool threads_ ABSL_GUARDED_BY(turn_);
  LayerWorkspace workspace_ ABSL_GUARDED_BY(turn_);
};

}  // namespace deltafin
