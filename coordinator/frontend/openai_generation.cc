#include "coordinator/frontend/openai_generation.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/text_sink.h"

namespace deltafin {

// One choice: between the engine and the writer. All state is guarded by the
// generation's mutex.
class OpenAiGeneration::ChoiceRun final : public TokenSink {
 public:
  ChoiceRun(OpenAiGeneration& generation, int choice, int prompt)
      : generation_(generation), choice_(choice), prompt_(prompt) {}

  absl::Status Init() {
    TextCallbacks callbacks;
    callbacks.on_delta = [this](const TextDelta& delta) { Add(delta); };
    callbacks.on_finish = [](const RequestResult&, std::vector<ToolCall>) {};
    ASSIGN_OR_RETURN(text_, TextSink::Create(generation_.place_.tokenizer,
                                             generation_.request_.text,
                                             std::move(callbacks)));
    return absl::OkStatus();
  }

  SinkAction OnToken(const TokenEvent& event) override {
    MutexLock lock(generation_.mutex_);
    EndPrefill();
    Echo();
    if (HidesEnd(event.id)) return SinkAction::kContinue;
    const SinkAction action = text_->OnToken(event);
    return is_read_ ? action : SinkAction::kStop;
  }

  void OnLogits(int64_t position, std::span<const float> logits) override {
    MutexLock lock(generation_.mutex_);
    if (position + 1 >= std::ssize(prompt_ids())) return;
    const int32_t id = prompt_ids()[position + 1];
    Logprobs scores = ComputeLogprobs(logits, id, request().top_logprobs);
    echoed_.push_back({id, scores.chosen, std::move(scores.top)});
  }

  void OnFinish(const RequestResult& result) override {
    // Keeps the mutex alive while it is held.
    const std::shared_ptr<OpenAiGeneration> keep =
        generation_.shared_from_this();
    MutexLock lock(generation_.mutex_);
    EndPrefill();
    if (result.status.ok()) {
      Echo();
      text_->OnFinish(result);
      generation_.place_.estimate.Measured(result.usage.prompt_tokens,
                                           result.timings.prefill);
    }
    generation_.OnChoiceEnd(choice_, prompt_, result);
  }

  const std::vector<int32_t>& prompt_ids() const {
    return generation_.request_.prompts[prompt_];
  }

 private:
  const GenerationRequest& request() const {
    return generation_.request_.generation;
  }

  // Completions do not show the token that ends them.
  bool HidesEnd(int32_t id) const {
    return !generation_.request_.text.chat && !request().ignore_eos &&
           id == generation_.place_.eos_token_id;
  }

  void EndPrefill() {
    if (std::exchange(is_prefilled_, true)) return;
    generation_.place_.estimate.Remove(std::ssize(prompt_ids()));
  }

  // The prompt, before the first token.
  void Echo() {
    if (!generation_.request_.echo || std::exchange(has_echoed_, true)) return;
    ChoiceText piece;
    // The ids were checked.
    piece.content =
        generation_.place_.tokenizer.Decode(prompt_ids()).value_or("");
    if (request().want_logprobs) {
      piece.tokens.push_back({prompt_ids()[0], std::nullopt, {}});
      for (ScoredToken& token : echoed_) {
        piece.tokens.push_back(std::move(token));
      }
      echoed_.clear();
    }
    Send(piece);
  }

  void Add(const TextDelta& delta) {
    ChoiceText piece;
    piece.content = delta.content;
    piece.reasoning = delta.reasoning;
    piece.calls.assign(delta.calls.begin(), delta.calls.end());
    if (delta.token != nullptr) {
      const TokenEvent& token = *delta.token;
      if (delta.part == OutputPart::kReasoning) {
        ++generation_.usage_.reasoning_tokens;
      }
      if (request().want_logprobs && delta.part == OutputPart::kContent) {
        piece.tokens.push_back(
            {token.id,
             token.logprob,
             {token.top_logprobs.begin(), token.top_logprobs.end()}});
      }
    }
    Send(piece);
  }

  void Send(const ChoiceText& piece) {
    if (generation_.is_silent_ || piece.empty()) return;
    is_read_ = generation_.writer_->Piece(choice_, piece);
  }

  OpenAiGeneration& generation_;
  const int choice_;
  const int prompt_;
  std::unique_ptr<TextSink> text_;
  std::vector<ScoredToken> echoed_;
  bool has_echoed_ = false;
  bool is_prefilled_ = false;
  bool is_read_ = true;
};

OpenAiGeneration::OpenAiGeneration(OpenAiRequest request,
                                   const GenerationPlace& place)
    : request_(std::move(request)), place_(place) {}

OpenAiGeneration::~OpenAiGeneration() = default;

absl::Status OpenAiGeneration::Start(std::shared_ptr<AnswerWriter> writer) {
  const std::shared_ptr<OpenAiGeneration> keep = shared_from_this();
  absl::Status status;
  {
    MutexLock lock(mutex_);
    writer_ = std::move(writer);
    place_.live.Add(keep);
    status = SubmitAll();
    is_silent_ = !status.ok();
    if (status.ok()) writer_->Begin();
    if (num_running_ == 0) place_.live.Remove(this);
  }
  if (!status.ok()) Cancel();
  return status;
}

absl::Status OpenAiGeneration::SubmitAll() {
  const int num_choices =
      static_cast<int>(request_.prompts.size()) * request_.num_choices;
  for (int choice = 0; choice < num_choices; ++choice) {
    runs_.push_back(std::make_unique<ChoiceRun>(*this, choice,
                                                choice / request_.num_choices));
    RETURN_IF_ERROR(runs_.back()->Init());
  }
  for (int choice = 0; choice < num_choices; ++choice) {
    ChoiceRun& run = *runs_[choice];
    GenerationRequest generation = request_.generation;
    generation.prompt_ids = run.prompt_ids();
    generation.sampling.choice =
        static_cast<uint32_t>(choice % request_.num_choices);
    if (request_.grammar != nullptr) {
      ASSIGN_OR_RETURN(
          generation.constraint,
          GrammarConstraint::Create(request_.grammar, place_.tokenizer));
    }
    generation.deadline = absl::Now() + request_.timeout;
    ASSIGN_OR_RETURN(const RequestId id,
                     place_.scheduler.Submit(std::move(generation), &run));
    place_.estimate.Add(std::ssize(run.prompt_ids()));
    ++num_running_;
    MutexLock lock(ids_mutex_);
    ids_.push_back(id);
  }
  return absl::OkStatus();
}

void OpenAiGeneration::Cancel() {
  std::vector<RequestId> ids;
  {
    MutexLock lock(ids_mutex_);
    ids.swap(ids_);
  }
  for (const RequestId id : ids) place_.scheduler.Cancel(id);
}

void OpenAiGeneration::OnChoiceEnd(int choice, int prompt,
                                   const RequestResult& result) {
  --num_running_;
  usage_.completion_tokens += result.usage.completion_tokens;
  if (choice % request_.num_choices == 0) {
    usage_.prompt_tokens += std::ssize(request_.prompts[prompt]);
    usage_.cached_tokens += result.usage.cached_tokens;
  }
  if (!is_silent_ && !result.status.ok()) {
    is_silent_ = true;
    writer_->Fail(result.status);
    Cancel();
  } else if (!is_silent_) {
    writer_->ChoiceEnd(choice, result.finish_reason);
  }
  if (num_running_ > 0) return;
  if (!is_silent_) writer_->End(usage_);
  place_.live.Remove(this);
}

}  // namespace deltafin
