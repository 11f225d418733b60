#include "coordinator/engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

// Logits of one step of a request that wants all rows: 102 rows of K3's
// vocabulary.
constexpr int64_t kAllLogitsBytes = 64 << 20;

StepBounds BoundsOfStep(const SchedulerOptions& options,
                        const ModelSpec& spec) {
  const int64_t rows =
      kAllLogitsBytes / (int64_t{spec.vocab_size} * int64_t{sizeof(float)});
  return {options.prefill_chunk, static_cast<int>(std::max<int64_t>(rows, 1))};
}

// An error that one sequence alone may have caused, so that its companions can
// succeed without it. The others tell of the cluster.
bool MayBlameOneSequence(const absl::Status& status) {
  return status.code() != absl::StatusCode::kUnavailable &&
         status.code() != absl::StatusCode::kDeadlineExceeded &&
         status.code() != absl::StatusCode::kCancelled;
}

void CountFinish(const absl::Status& status, FinishReason reason,
                 FinishCounts* counts) {
  if (absl::IsCancelled(status)) {
    ++counts->cancelled;
  } else if (absl::IsDeadlineExceeded(status)) {
    ++counts->deadline;
  } else if (!status.ok()) {
    ++counts->failed;
  } else if (reason == FinishReason::kNone) {
    ++counts->evaluated;
  } else if (reason == FinishReason::kLength) {
    ++counts->length;
  } else {
    ++counts->stop;
  }
}

size_t NumRows(const SequenceSlice& slice) {
  if (slice.logits == LogitsRows::kAll) return slice.ids.size();
  return slice.logits == LogitsRows::kLast ? 1 : 0;
}

}  // namespace

int64_t StateBytes(const SpineDescription& spine, const LiveRequest& request) {
  const bool may_draft = request.speculation() != SpeculationMode::kOff;
  return spine.sequence_fixed_bytes +
         spine.sequence_token_bytes * request.max_state_tokens() +
         (may_draft ? spine.sequence_draft_bytes : 0);
}

EngineLoop::EngineLoop(const SchedulerOptions& options, ForwardPass& forward,
                       SubmissionQueue& queue)
    : options_(options),
      step_bounds_(BoundsOfStep(options, forward.spine().spec())),
      description_(forward.spine().description()),
      forward_(forward),
      queue_(queue),
      sequences_(forward.spine(), options.retained_bytes),
      speculation_(description_.max_drafts) {}

void EngineLoop::Run() {
  SetContractFloatingPointMode();
  while (queue_.WaitForWork(!live_.empty(), [this] { forward_.Tend(); })) {
    EndUnwanted();
    DropFinished();
    Admit();
    CountRunning();
    RunStep();
    DropFinished();
  }
}

void EngineLoop::EndAll() {
  while (queue_.Front() != nullptr) live_.push_back(queue_.Pop());
  for (AcceptedRequest& accepted : live_) {
    Finish(accepted.request.get(),
           absl::CancelledError("the engine is shut down"));
  }
  DropFinished();
}

SchedulerStats EngineLoop::stats() const {
  MutexLock lock(mutex_);
  SchedulerStats stats = stats_;
  stats.decode_tokens += stats.speculation.accepted;
  stats.requests_waiting = static_cast<int64_t>(queue_.num_waiting());
  return stats;
}

// Finishes what was cancelled or ran out of time, waiting or live.
void EngineLoop::EndUnwanted() {
  for (AcceptedRequest& accepted : queue_.RemoveEnded()) {
    Finish(accepted.request.get(), accepted.request->EndedFromOutside());
    queue_.Forget(accepted.id);
  }
  for (AcceptedRequest& accepted : live_) {
    const absl::Status ended = accepted.request->EndedFromOutside();
    if (!ended.ok()) Finish(accepted.request.get(), ended);
  }
}

void EngineLoop::Admit() {
  while (std::ssize(live_) < options_.max_sequences) {
    LiveRequest* request = queue_.Front();
    if (request == nullptr) return;
    const int64_t room = RoomBeside(StateBytes(description_, *request));
    if (room < 0) return;
    auto state = request->may_reuse()
                     ? sequences_.Start(request->prompt_ids(),
                                        request->max_state_tokens(), room)
                     : sequences_.StartAnew(request->max_state_tokens(), room);
    if (absl::IsResourceExhausted(state.status()) && !live_.empty()) return;
    live_.push_back(queue_.Pop());
    if (state.ok()) {
      request->SetState(*std::move(state));
    } else {
      Finish(request, state.status());
      DropFinished();
    }
  }
}

int64_t EngineLoop::RoomBeside(int64_t further_bytes) const {
  if (options_.sequence_bytes == 0) return options_.retained_bytes;
  int64_t bytes = further_bytes;
  for (const AcceptedRequest& accepted : live_) {
    bytes += StateBytes(description_, *accepted.request);
  }
  return options_.state_bytes() - bytes;
}

void EngineLoop::RunStep() {
  std::vector<LiveRequest*> requests;
  for (AcceptedRequest& accepted : live_) {
    requests.push_back(accepted.request.get());
  }
  speculation_.Plan(requests);
  const StepBatch batch = FormStepBatch(requests, step_bounds_);
  if (batch.requests.empty()) return;
  const auto rows =
      forward_.Step(batch.slices, [&] { return StepIsUnwanted(batch); });
  CountStep(batch);
  for (LiveRequest* request : batch.requests) {
    request->AddStep(forward_.last_step());
  }
  if (rows.ok()) {
    TakeRows(batch, *rows);
    const StepTrace& step = forward_.last_step();
    speculation_.AddStep(
        batch, {step.seconds, step.experts.waited(), forward_.fresh_experts()});
  } else {
    TakeFailure(batch, rows.status());
  }
}

// A cancelled request hears of it at once, even where companions keep the step
// going.
bool EngineLoop::StepIsUnwanted(const StepBatch& batch) {
  EndUnwanted();
  return queue_.closed() ||
         std::all_of(
             batch.requests.begin(), batch.requests.end(),
             [](const LiveRequest* request) { return request->finished(); });
}

void EngineLoop::TakeRows(const StepBatch& batch, std::span<const float> rows) {
  const size_t vocab_size = forward_.spine().spec().vocab_size;
  size_t begin = 0;
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    const size_t size = NumRows(batch.slices[i]) * vocab_size;
    LiveRequest* request = batch.requests[i];
    if (!request->finished()) {
      const auto complete =
          TakeSlice(request, batch.slices[i], rows.subspan(begin, size));
      if (complete.ok() && *complete) {
        RetainEnd(request);
      } else if (complete.ok() && request->is_at_fork()) {
        sequences_.RetainCopy(request->fed_ids(), request->state(),
                              RoomBeside(0));
      }
      if (!complete.ok() || *complete) Finish(request, complete.status());
    }
    begin += size;
  }
}

absl::StatusOr<bool> EngineLoop::TakeSlice(LiveRequest* request,
                                           const SequenceSlice& slice,
                                           std::span<const float> rows) {
  ASSIGN_OR_RETURN(const bool complete, request->Take(slice, rows));
  speculation_.AddOutcome(request->draft_outcome(), slice.num_drafts);
  if (request->num_rejected() > 0) {
    RETURN_IF_ERROR(
        forward_.spine().TakeBack(request->state(), request->num_rejected()));
  }
  return complete;
}

void EngineLoop::TakeFailure(const StepBatch& batch,
                             const absl::Status& status) {
  // A draft that the model cannot take need never come.
  const bool may_retry =
      (batch.requests.size() > 1 || batch.draft_tokens > 0) &&
      MayBlameOneSequence(status);
  for (LiveRequest* request : batch.requests) {
    if (request->finished()) continue;
    const absl::Status end =
        may_retry ? request->Rewind(forward_.spine()) : status;
    if (!end.ok()) Finish(request, end);
  }
}

void EngineLoop::RetainEnd(LiveRequest* request) {
  if (!request->may_reuse()) return;
  const int64_t own = StateBytes(description_, *request);
  sequences_.Retain(request->fed_ids(), request->ReleaseState(),
                    RoomBeside(-own));
}

void EngineLoop::Finish(LiveRequest* request, const absl::Status& status) {
  if (request->finished()) return;
  {
    MutexLock lock(mutex_);
    ++stats_.requests_finished;
    stats_.reuse = sequences_.stats();
    stats_.speculation = speculation_.stats();
    CountFinish(status, request->finish_reason(), &stats_.finished);
  }
  history_.Add(request->Explain());  // who hears of the end may ask at once
  request->Finish(status);
}

void EngineLoop::DropFinished() {
  std::erase_if(live_, [&](AcceptedRequest& accepted) {
    if (!accepted.request->finished()) return false;
    queue_.Forget(accepted.id);
    return true;
  });
  CountRunning();
}

void EngineLoop::CountRunning() {
  MutexLock lock(mutex_);
  stats_.requests_running = std::ssize(live_);
  stats_.reuse = sequences_.stats();
  stats_.speculation = speculation_.stats();
}

void EngineLoop::CountStep(const StepBatch& batch) {
  const int num_sequences = static_cast<int>(batch.requests.size());
  MutexLock lock(mutex_);
  ++stats_.steps;
  stats_.prefill_tokens += batch.prefill_tokens;
  stats_.decode_tokens += batch.decode_tokens;
  stats_.steps_with_two_or_more += num_sequences >= 2 ? 1 : 0;
  stats_.max_sequences_in_step =
      std::max(stats_.max_sequences_in_step, num_sequences);
  stats_.sequences_in_steps += num_sequences;
  stats_.max_tokens_in_step =
      std::max(stats_.max_tokens_in_step,
               batch.prefill_tokens + batch.decode_tokens + batch.draft_tokens);
  stats_.forward = forward_.stats();
}

}  // namespace deltafin
