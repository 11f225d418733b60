// coordinator/engine/live_request.h
//
// One request from Submit to OnFinish: its ids, its sequence state, what it
// has delivered. Belongs to the engine thread, but for Cancel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/engine/draft_policy.h"
#include "coordinator/engine/request.h"
#include "coordinator/engine/request_trace.h"
#include "coordinator/engine/sampler.h"
#include "coordinator/engine/suffix_drafter.h"
#include "spine_node/spine.h"

namespace deltafin {

// What bounds a sequence.
struct SequenceLimits {
  int64_t context_tokens = 0;
  int32_t eos_token_id = 0;
};

class LiveRequest {
 public:
  // `sink` and `kernel` must outlive this. REQUIRES: the request was checked.
  LiveRequest(GenerationRequest request, TokenSink* sink,
              const SequenceLimits& limits, const ElementwiseKernel& kernel);

  // Once, before the engine has it.
  void SetId(RequestId id) { id_ = id; }

  // Any thread.
  void Cancel() { cancelled_ = true; }
  // Why the request must end now: CANCELLED, DEADLINE_EXCEEDED or OK.
  absl::Status EndedFromOutside() const;

  // Tokens that the state may come to hold; the last one drawn is never fed.
  int64_t max_state_tokens() const;

  // --- explaining ---

  // A step that it had a part in, before Take.
  void AddStep(const StepTrace& step) { trace_.AddStep(step); }
  // Where its time went.
  v1::Explanation Explain() const;

  // --- feeding ---

  bool has_state() const { return state_ != nullptr; }
  // `state` may hold the first ids of the prompt already, but not all.
  void SetState(std::unique_ptr<SequenceState> state);
  // Ids that the state does not hold yet; never empty while live.
  std::span<const int32_t> pending() const;
  // A lone generated token; otherwise the prompt (or a replay) is being fed.
  bool is_decoding() const;
  bool wants_all_logits() const { return request_.want_all_logits; }
  // How many of pending() the next step may take: it must not run over a point
  // whose state is to be retained.
  int64_t num_feedable() const;
  // The next num_ids of pending() as a part of a step, and the drafts to send
  // where they are all.
  SequenceSlice NextSlice(int num_ids);

  // --- guessing, before each step ---

  SpeculationMode speculation() const {
    return wants_all_logits()
               ? SpeculationMode::kOff
               : request_.speculation.value_or(SpeculationMode::kOff);
  }
  // Up to max_drafts ids that probably follow the pending one; none where the
  // request does not decode by itself or wants no more.
  const Draft& Guess(int max_drafts);
  // How many of them the next step shall carry.
  void SendDrafts(int count) { num_sent_ = count; }
  // What became of the guess in the last step, sent or not.
  const DraftOutcome& draft_outcome() const { return outcome_; }
  // Drafts of the last step that the state holds and that were not drawn.
  int num_rejected() const { return progress_.num_rejected; }

  // --- reusing ---

  const std::vector<int32_t>& prompt_ids() const { return request_.prompt_ids; }
  bool may_reuse() const { return !request_.want_all_logits; }
  // The ids that the state holds now; between steps.
  std::span<const int32_t> fed_ids() const {
    return std::span(ids_).first(progress_.num_fed);
  }
  SequenceState& state() { return *state_; }
  // The last step brought the state to a point that is worth a copy: the end of
  // the prompt or of what it shares with others.
  bool is_at_fork() const;
  // The state, once nothing will be fed any more.
  std::unique_ptr<SequenceState> ReleaseState() { return std::move(state_); }

  // --- what a step gave ---

  // Takes the rows that the slice asked for after its step succeeded: delivers
  // logits, draws a token where the slice was the end of pending(). True when
  // the request is complete. Errors: the sampler's.
  absl::StatusOr<bool> Take(const SequenceSlice& slice,
                            std::span<const float> rows);

  // After a failed step: makes the state hold a prefix of the ids again, the
  // rest is pending. The request then runs alone until it has passed the point
  // of failure; nothing delivered is delivered again. Errors: the spine's.
  absl::Status Rewind(Spine& spine);
  bool must_run_alone() const {
    return progress_.num_fed < progress_.alone_until;
  }

  // Calls OnFinish, once; later calls do nothing.
  void Finish(const absl::Status& status);
  bool finished() const { return finished_; }
  FinishReason finish_reason() const { return finish_reason_; }

 private:
  int64_t prompt_size() const {
    return static_cast<int64_t>(request_.prompt_ids.size());
  }
  // The most tokens that may be drawn; 0: the prompt is only evaluated.
  int64_t max_generated() const;
  int64_t num_generated() const {
    return static_cast<int64_t>(ids_.size()) - prompt_size();
  }
  void DeliverLogits(std::span<const float> rows, int64_t first_position,
                     size_t vocab_size);
  // Draws after the pending token and after each draft, as long as they are
  // equal.
  absl::StatusOr<bool> DrawTokens(const SequenceSlice& slice,
                                  std::span<const float> rows);
  absl::StatusOr<bool> DrawToken(std::span<const float> logits);
  void WatchGuess();
  SinkAction DeliverToken(int32_t id, std::span<const float> logits);

  // Positions: how far the sequence has come.
  struct Progress {
    int64_t num_fed = 0;      // ids that the state holds
    int64_t num_cached = 0;   // of them, there from the start
    int64_t step_end = 0;     // num_fed after the step under way, no drafts
    int num_rejected = 0;     // drafts of the last step that were not drawn
    int64_t alone_until = 0;  // see must_run_alone
    int64_t next_logits = 0;  // position of the next row to deliver
  };
  struct Times {
    absl::Time submitted;
    std::optional<absl::Time> first_step;
    std::optional<absl::Time> first_token;
  };
  RequestTimings Timings() const;

  RequestId id_ = 0;
  const GenerationRequest request_;
  TokenSink* const sink_;
  const SequenceLimits limits_;
  Sampler sampler_;
  std::atomic<bool> cancelled_ = false;
  std::vector<int32_t> ids_;  // prompt, then output
  std::unique_ptr<SequenceState> state_;
  SuffixDrafter drafter_;
  Draft draft_;
  int num_sent_ = 0;                // of draft_, with the next step
  std::vector<int32_t> draft_ids_;  // pending, then what is sent
  DraftOutcome outcome_;
  Progress progress_;
  Times times_;
  RequestTrace trace_;
  FinishReason finish_reason_ = FinishReason::kNone;
  bool finished_ = false;
};

}  // namespace deltafin
