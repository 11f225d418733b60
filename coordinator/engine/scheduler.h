// coordinator/engine/scheduler.h
//
// Continuous batching: forms each step from every live request, drives the
// forward pass on one engine thread, samples, delivers. Thread-safe: Submit,
// Cancel and stats may be called from any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/engine/forward_pass.h"
#include "coordinator/engine/request.h"
#include "coordinator/engine/sequence_store.h"
#include "coordinator/engine/speculation.h"
#include "kernels/elementwise.h"
#include "proto/admin.pb.h"

namespace deltafin {

struct SchedulerOptions {
  // Prompt tokens in one step, over all prompts being prefilled. Larger chunks
  // read fewer distinct experts per token.
  int prefill_chunk = 512;
  // Tokens a sequence may reach, prompt included.
  int64_t context_tokens = 8192;
  // Sequences that hold state at once; more wait in the queue.
  int max_sequences = 8;
  // Bytes all sequences may hold together; a request that could never fit is
  // refused, one that must wait waits. 0: no bound.
  int64_t sequence_bytes = 0;
  // Bytes of states retained for requests that begin with the same ids, beyond
  // sequence_bytes; live sequences may take them too. 0: none are retained.
  int64_t retained_bytes = 0;
  // Of requests that do not say.
  SpeculationMode speculation = SpeculationMode::kOff;
  // For the sampler's exp; null: the fastest that this machine supports. Every
  // choice gives the same bits.
  const ElementwiseKernel* kernel = nullptr;
  // Requests that may wait; further ones are refused with RESOURCE_EXHAUSTED.
  int max_queued = 256;

  // What live and retained states may hold together; 0: no bound.
  int64_t state_bytes() const {
    return sequence_bytes > 0 ? sequence_bytes + retained_bytes : 0;
  }
};

// How requests ended.
struct FinishCounts {
  int64_t stop = 0;  // the end-of-message token, or a stop string
  int64_t length = 0;
  int64_t evaluated = 0;  // a prompt without tokens to draw
  int64_t cancelled = 0;
  int64_t deadline = 0;
  int64_t failed = 0;
};

// Totals since start, but for the two that say now.
struct SchedulerStats {
  int64_t steps = 0;
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  int64_t steps_with_two_or_more = 0;  // steps holding >= 2 sequences
  int max_sequences_in_step = 0;
  int64_t sequences_in_steps = 0;  // held by each step, summed over steps
  int64_t max_tokens_in_step = 0;
  int64_t requests_finished = 0;
  FinishCounts finished;
  int64_t requests_running = 0;  // now; they hold state
  int64_t requests_waiting = 0;  // now
  ReuseStats reuse;
  SpeculationStats speculation;
  ForwardStats forward;
};

class Scheduler {
 public:
  // `forward` must outlive the scheduler and is used by its engine thread alone
  // from Start on.
  Scheduler(const SchedulerOptions& options, ForwardPass& forward);
  ~Scheduler();  // Shutdown

  absl::Status Start();
  // Ends every live request with CANCELLED, joins the engine thread.
  // Idempotent.
  void Shutdown();

  // Checks and queues. `sink` is used until its OnFinish returns; on an error
  // it is never called. Errors: INVALID_ARGUMENT (empty prompt, id out of
  // range, prompt over the context bound, sampling option out of range: named),
  // RESOURCE_EXHAUSTED (queue full, state never fits), UNAVAILABLE after
  // Shutdown.
  absl::StatusOr<RequestId> Submit(GenerationRequest request, TokenSink* sink);
  // Ends the request within one layer; its sink gets CANCELLED. Unknown ids are
  // ignored.
  void Cancel(RequestId id);

  SchedulerStats stats() const;

  // Where the time of a request that finished went; 0: the last one. Errors:
  // NOT_FOUND with those that are known.
  absl::StatusOr<v1::Explanation> Explain(RequestId id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
