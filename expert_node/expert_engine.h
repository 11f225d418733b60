// expert_node/expert_engine.h
//
// Computes the routed experts of one layer request, or of several parts of a
// layer together: experts' slices from the store, kernel over threads or on
// cards, exact sums (docs/numerics.md section 8). How the work is cut shows in
// no bit of the result. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "expert_node/device/card_set.h"
#include "expert_node/layer_run.h"
#include "expert_node/layer_work.h"
#include "expert_node/storage/tiered_store.h"
#include "kernels/kernel_registry.h"

namespace deltafin {

struct LayerResult {
  // OUT_OF_RANGE: inf, NaN or overflow; the lowest (expert, token) of this
  // part is in the two fields below and in the message. CANCELLED. Others:
  // the store's, naming layer, expert and file. On any error there are no sums.
  absl::Status status;
  int error_expert = 0;
  int error_token = 0;

  std::vector<int> tokens;  // tokens that had work, ascending: the rows
  std::string sums;         // i64 [rows, L], scale 2^40

  // Of parts that ran together, each has the share of its slices.
  absl::Duration read;          // time the threads waited for bytes, on average
  absl::Duration compute;       // the rest
  int64_t slices_computed = 0;  // (token, expert, slice) triples
  // Of parts that ran together, the first has all of them.
  uint64_t bytes_read = 0;
  int cache_hits = 0;  // slices
  int cache_misses = 0;
  ExpectedSlicesStats expected;  // of the store, since it was made
};

class ExpertEngine {
 public:
  // `kernel`, `store` and `cards` must outlive the engine; null: no cards.
  // Starts num_threads - 1 threads; the caller of Run is the first.
  ExpertEngine(const KernelTarget& kernel, const SituParams& situ,
               TieredStore& store, int num_threads, CardSet* cards = nullptr);

  // Runs parts of one layer together, so that a slice that several of them want
  // is read once; returns a result for each, in their order, as if each had run
  // alone. One caller computes at a time, with all threads; others wait for
  // their turn. Blocks on disk where slices are not in RAM. Looks at
  // `cancelled` before each slice. REQUIRES: at least one part.
  std::vector<LayerResult> Run(std::span<const LayerWork* const> parts,
                               const std::atomic<bool>& cancelled);

  // TieredStore::Expect, but for what is on a card.
  void Expect(int layer, std::span<const ExpectedRun> runs);

  const KernelTarget& kernel() const { return kernel_; }
  int num_threads() const { return num_threads_; }

 private:
  using Parts = std::span<const LayerWork* const>;

  std::vector<LayerResult> RunTogether(Parts parts,
                                       const std::atomic<bool>& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  std::vector<LayerResult> RunApart(Parts parts,
                                    const std::atomic<bool>& cancelled)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  using MergeRow = absl::FunctionRef<void(int row, char* out)>;

  // True: the cards did it, and *status tells how it went.
  bool ComputeOnCards(const MergedWork& work, LayerRun& run, LayerResult& cost,
                      absl::Status* status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  absl::Status Compute(LayerRun& run, LayerResult& cost)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);
  void TakeSums(const MergedWork& work, const WorkPlan& plan, MergeRow merge,
                std::vector<LayerResult>& results)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(turn_);

  const KernelTarget& kernel_;
  const SituParams situ_;
  TieredStore& store_;
  CardSet* const cards_;  // null: none
  const int num_threads_;
  // The turn of a request: held while it computes, not a guard of shared data
  // that others wait to read.
  Mutex turn_;
  ThreadPool threads_ ABSL_GUARDED_BY(turn_);
  LayerWorkspace workspace_ ABSL_GUARDED_BY(turn_);
};

}  // namespace deltafin
