// coordinator/engine/engine_loop.h
//
// What the engine thread does: admits requests from the queue, forms steps,
// runs them, hands out what they gave. Belongs to the engine thread, but for
// stats.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/mutex.h"
#include "coordinator/engine/request_history.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/engine/sequence_store.h"
#include "coordinator/engine/speculation.h"
#include "coordinator/engine/step_batch.h"
#include "coordinator/engine/submission_queue.h"

namespace deltafin {

// Bytes of state that a request may come to hold.
int64_t StateBytes(const SpineDescription& spine, const LiveRequest& request);

class EngineLoop {
 public:
  // `forward` and `queue` must outlive this.
  EngineLoop(const SchedulerOptions& options, ForwardPass& forward,
             SubmissionQueue& queue);

  // Works until the queue is closed. Leaves requests behind for EndAll.
  void Run();
  // Ends every request that is left with CANCELLED. After Run, any thread.
  void EndAll();

  // Thread-safe.
  SchedulerStats stats() const;
  // Of the requests that finished. Thread-safe.
  const RequestHistory& history() const { return history_; }

 private:
  void EndUnwanted();
  void Admit();
  // What retained states may hold beside the live ones and `further_bytes`;
  // negative: these do not fit themselves.
  int64_t RoomBeside(int64_t further_bytes) const;
  void RunStep();
  bool StepIsUnwanted(const StepBatch& batch);
  void TakeRows(const StepBatch& batch, std::span<const float> rows);
  // As LiveRequest::Take, and the state holds nothing that was not drawn.
  absl::StatusOr<bool> TakeSlice(LiveRequest* request,
                                 const SequenceSlice& slice,
                                 std::span<const float> rows);
  void TakeFailure(const StepBatch& batch, const absl::Status& status);
  // Keeps what a request leaves behind for others, before it is told its end.
  void RetainEnd(LiveRequest* request);
  void Finish(LiveRequest* request, const absl::Status& status);
  void DropFinished();
  void CountRunning();
  void CountStep(const StepBatch& batch);

  const SchedulerOptions options_;
  const StepBounds step_bounds_;
  const SpineDescription description_;
  ForwardPass& forward_;
  SubmissionQueue& queue_;
  std::vector<AcceptedRequest> live_;  // with state, in order of arrival
  SequenceStore sequences_;
  Speculation speculation_;
  RequestHistory history_;
  mutable Mutex mutex_;
  SchedulerStats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
