// expert_node/layer_run.h
//
// One run, of a layer request or of several parts of a layer, on its way
// through the engine's threads: all of it, or what cards leave to the
// processor. Not thread-safe but for RunUnit and RunSlice.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/aligned_buffer.h"
#include "common/base/mutex.h"
#include "expert_node/merged_work.h"
#include "expert_node/storage/tiered_store.h"
#include "expert_node/work_plan.h"
#include "kernels/expert_kernel.h"

namespace deltafin {

// Memory that runs use one after the other; grows to the largest one.
struct LayerWorkspace {
  AlignedBuffer prepared;  // activations, pass by pass of each token list
  AlignedBuffer scratch;   // [threads, scratch bytes of a full pass]
  AlignedBuffer sums;      // [threads, rows, L] i64
};

// Lowest numeric error of a run. Lock-free, so that threads report without
// meeting.
class LowestError {
 public:
  struct Place {
    int expert = 0;
    int token = 0;
    int slice = 0;
    KernelStatus kind = KernelStatus::kOk;
  };
  // Keeps the place if it is below the one kept, by (expert, token, slice).
  void Report(const Place& place);
  bool any() const { return lowest_.load() != kNone; }
  void Forget() { lowest_ = kNone; }
  // REQUIRES: any().
  Place place() const;
  // True if no error of `expert` could be the lowest.
  bool IsBelow(int expert) const;

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};
  std::atomic<uint64_t> lowest_{kNone};
};

class LayerRun {
 public:
  struct Machine {
    const ExpertKernel& kernel;
    const SituParams& situ;
    const ExpertShape& shape;
    int num_threads;
  };

  // All must outlive the run. `cancelled` is looked at before each unit.
  LayerRun(const MergedWork& work, const std::atomic<bool>& cancelled,
           const Machine& machine, LayerWorkspace& workspace);

  const WorkPlan& plan() const { return plan_; }
  const std::atomic<bool>& cancelled() const { return cancelled_; }

  // Sizes the workspace. Errors: RESOURCE_EXHAUSTED.
  absl::Status Allocate();

  // True if the run was cancelled; it has failed then.
  bool StopIfCancelled();

  int num_prepare_tasks() const { return static_cast<int>(passes_.size()); }
  // Quantises the tokens of one pass.
  void Prepare(int task);
  // After all Prepare: bad tokens become errors of their experts.
  void CheckPrepared();

  // Waits for the slice of a unit, runs it, gives it back. `worker`: of the
  // calling thread, for its sums and scratch.
  void RunUnit(SliceLease& lease, int unit, int worker);

  // Runs a unit whose slice is at hand, and Prepare for what it needs. An error
  // is no more than a sign that the whole is to be done by RunUnit, which finds
  // the lowest one.
  void RunSlice(int unit, const uint8_t* slice, int worker);

  // Adds the threads' sums of one row and writes them to out [L].
  void MergeRow(int row, char* out);
  // Adds them to what is there.
  void AddRow(int row, char* out) const;

  // Forgets all that was computed, and errors.
  void StartOver();

  // After all units. OK, or why there are no sums.
  absl::Status status() const;
  const LowestError& error() const { return error_; }
  // Time that the threads waited for bytes, summed.
  absl::Duration waited() const { return absl::Nanoseconds(waited_ns_.load()); }

 private:
  // kMaxPassTokens tokens of a token list, or what is left.
  struct Pass {
    int token_list = 0;
    int first = 0;
    int num_tokens = 0;
    size_t prepared = 0;  // offset in the workspace
    int bad_token = -1;   // first that is not finite, index in the list
    std::unique_ptr<std::once_flag> prepared_once;  // by RunSlice
  };

  void CutPasses();
  size_t prepared_bytes() const;
  absl::StatusOr<const uint8_t*> WaitForSlice(SliceLease& lease, int unit);
  void Compute(const WorkUnit& unit, const uint8_t* slice, int worker);
  void ComputePass(const WorkUnit& unit, const Pass& pass, const uint8_t* slice,
                   int worker);
  int64_t* SumsRow(int worker, int row);
  void Stop(const absl::Status& status);

  const MergedWork& work_;
  const std::atomic<bool>& cancelled_;
  const Machine machine_;
  LayerWorkspace& workspace_;
  const WorkPlan plan_;
  std::vector<Pass> passes_;
  std::vector<int> first_pass_;       // [token lists + 1] index into passes_
  std::vector<uint8_t> list_is_bad_;  // [token lists]
  std::vector<uint8_t> touched_;      // [threads, rows] sums row is in use
  LowestError error_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> waited_ns_{0};
  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
