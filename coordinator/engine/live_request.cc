#include "coordinator/engine/live_request.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"

namespace deltafin {

LiveRequest::LiveRequest(GenerationRequest request, TokenSink* sink,
                         const SequenceLimits& limits,
                         const ElementwiseKernel& kernel)
    : request_(std::move(request)),
      sink_(sink),
      limits_(limits),
      sampler_(request_.sampling, request_.prompt_ids, kernel,
               request_.constraint),
      ids_(request_.prompt_ids) {
  times_.submitted = absl::Now();
}

absl::Status LiveRequest::EndedFromOutside() const {
  if (cancelled_) return absl::CancelledError("the request was cancelled");
  if (request_.deadline != absl::InfiniteFuture() &&
      absl::Now() >= request_.deadline) {
    return absl::DeadlineExceededError("the request's deadline passed");
  }
  return absl::OkStatus();
}

int64_t LiveRequest::max_generated() const {
  return std::min<int64_t>(request_.max_new_tokens,
                           limits_.context_tokens - prompt_size());
}

int64_t LiveRequest::max_state_tokens() const {
  return prompt_size() + std::max<int64_t>(max_generated() - 1, 0);
}

void LiveRequest::SetState(std::unique_ptr<SequenceState> state) {
  state_ = std::move(state);
  progress_.num_fed = state_->num_tokens();
  progress_.num_cached = progress_.num_fed;
}

int64_t LiveRequest::num_feedable() const {
  const int64_t shared = request_.shared_prefix_tokens - progress_.num_fed;
  const int64_t rest = std::ssize(pending());
  return shared > 0 && may_reuse() ? std::min(shared, rest) : rest;
}

bool LiveRequest::is_at_fork() const {
  return may_reuse() && progress_.num_fed > progress_.num_cached &&
         (progress_.num_fed == prompt_size() ||
          progress_.num_fed == request_.shared_prefix_tokens);
}

std::span<const int32_t> LiveRequest::pending() const {
  return std::span(ids_).subspan(progress_.num_fed);
}

bool LiveRequest::is_decoding() const {
  return progress_.num_fed >= prompt_size() && pending().size() == 1;
}

SequenceSlice LiveRequest::NextSlice(int num_ids) {
  if (!times_.first_step) times_.first_step = absl::Now();
  const bool reaches_end = static_cast<size_t>(num_ids) == pending().size();
  LogitsRows rows = LogitsRows::kNone;
  if (request_.want_all_logits) {
    rows = LogitsRows::kAll;
  } else if (reaches_end && max_generated() > 0) {
    rows = LogitsRows::kLast;
  }
  progress_.step_end = progress_.num_fed + num_ids;
  if (num_sent_ == 0 || !reaches_end) {
    return {state_.get(), pending().first(num_ids), rows};
  }
  draft_ids_.assign(pending().begin(), pending().end());
  draft_ids_.insert(draft_ids_.end(), draft_.ids.begin(),
                    draft_.ids.begin() + num_sent_);
  return {state_.get(), draft_ids_, LogitsRows::kAll, num_sent_};
}

const Draft& LiveRequest::Guess(int max_drafts) {
  draft_ = Draft();
  num_sent_ = 0;
  // One token is drawn anyway, and the last one is never fed.
  const int64_t left = max_generated() - num_generated() - 1;
  const int most = static_cast<int>(std::min<int64_t>(max_drafts, left));
  if (most > 0 && is_decoding() && !must_run_alone()) {
    draft_ = drafter_.Find(ids_, most);
  }
  return draft_;
}

absl::StatusOr<bool> LiveRequest::Take(const SequenceSlice& slice,
                                       std::span<const float> rows) {
  const int64_t first_position = progress_.num_fed;
  progress_.num_fed = progress_.step_end;
  progress_.num_rejected = slice.num_drafts;
  outcome_ = DraftOutcome();
  if (slice.num_drafts > 0) return DrawTokens(slice, rows);
  size_t vocab_size = rows.size();
  if (slice.logits == LogitsRows::kAll) {
    vocab_size = rows.size() / slice.ids.size();
    DeliverLogits(rows, first_position, vocab_size);
  }
  if (!pending().empty()) return false;
  if (max_generated() > 0) {
    const auto complete = DrawToken(rows.last(vocab_size));
    WatchGuess();
    return complete;
  }
  finish_reason_ = FinishReason::kLength;
  return true;
}

absl::StatusOr<bool> LiveRequest::DrawTokens(const SequenceSlice& slice,
                                             std::span<const float> rows) {
  const size_t vocab_size = rows.size() / slice.ids.size();
  const auto drafts = slice.ids.last(slice.num_drafts);
  outcome_.match_length = draft_.match_length;
  for (size_t row = 0;; ++row) {
    ASSIGN_OR_RETURN(const bool complete,
                     DrawToken(rows.subspan(row * vocab_size, vocab_size)));
    if (row == drafts.size()) return complete;
    ++outcome_.trials;
    if (ids_.back() != drafts[row]) return complete;
    if (complete) return true;  // the last token is never fed
    ++outcome_.accepted;
    ++progress_.num_fed;
    --progress_.num_rejected;
  }
}

// A guess that was not sent tells by its first token how good guesses are.
void LiveRequest::WatchGuess() {
  if (draft_.ids.empty()) return;
  outcome_ = {draft_.match_length, 1, ids_.back() == draft_.ids[0] ? 1 : 0};
}

void LiveRequest::DeliverLogits(std::span<const float> rows,
                                int64_t first_position, size_t vocab_size) {
  // The row after the last token of the sequence predicts nothing.
  const int64_t end =
      max_generated() > 0 ? progress_.num_fed : prompt_size() - 1;
  int64_t position = first_position;
  for (size_t row = 0; row < rows.size(); row += vocab_size, ++position) {
    if (position < progress_.next_logits || position >= end) continue;
    sink_->OnLogits(position, rows.subspan(row, vocab_size));
    progress_.next_logits = position + 1;
  }
}

absl::StatusOr<bool> LiveRequest::DrawToken(std::span<const float> logits) {
  const int64_t position = static_cast<int64_t>(ids_.size());
  ASSIGN_OR_RETURN(const int32_t id, sampler_.Sample(logits, position));
  if (!times_.first_token) times_.first_token = absl::Now();
  sampler_.Accept(id);
  trace_.TokenDrawn();
  const SinkAction action = DeliverToken(id, logits);
  ids_.push_back(id);
  if (id == limits_.eos_token_id && !request_.ignore_eos) {
    finish_reason_ = FinishReason::kStop;
  } else if (action == SinkAction::kStop) {
    finish_reason_ = FinishReason::kStopString;
  } else if (num_generated() == max_generated()) {
    finish_reason_ = FinishReason::kLength;
  }
  return finish_reason_ != FinishReason::kNone;
}

SinkAction LiveRequest::DeliverToken(int32_t id,
                                     std::span<const float> logits) {
  TokenEvent event;
  event.id = id;
  event.position = static_cast<int64_t>(ids_.size());
  Logprobs logprobs;
  if (request_.want_logprobs || request_.top_logprobs > 0) {
    logprobs = ComputeLogprobs(logits, id, request_.top_logprobs);
    event.logprob = logprobs.chosen;
    event.top_logprobs = logprobs.top;
  }
  return sink_->OnToken(event);
}

absl::Status LiveRequest::Rewind(Spine& spine) {
  ASSIGN_OR_RETURN(progress_.num_fed,
                   spine.TruncateTo(*state_, progress_.num_fed));
  progress_.alone_until = std::max(progress_.alone_until, progress_.step_end);
  return absl::OkStatus();
}

void LiveRequest::Finish(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  RequestResult result;
  result.id = id_;
  result.status = status;
  if (status.ok()) result.finish_reason = finish_reason_;
  result.usage.prompt_tokens = static_cast<int>(prompt_size());
  result.usage.cached_tokens = static_cast<int>(progress_.num_cached);
  result.usage.completion_tokens = static_cast<int>(num_generated());
  result.timings = Timings();
  sink_->OnFinish(result);
}

v1::Explanation LiveRequest::Explain() const {
  v1::Explanation explanation = trace_.ToProto();
  explanation.set_request(id_);
  explanation.set_seconds(
      absl::ToDoubleSeconds(absl::Now() - times_.submitted));
  return explanation;
}

RequestTimings LiveRequest::Timings() const {
  const absl::Time end = absl::Now();
  const absl::Time first_step = times_.first_step.value_or(end);
  const absl::Time first_token = times_.first_token.value_or(end);
  return {first_step - times_.submitted, first_token - first_step,
          end - first_token};
}

}  // namespace deltafin
