// coordinator/frontend/openai_generation.h
//
// One request of the OpenAI API on its way through the scheduler: all its
// choices, until the last of them has ended. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/generation_set.h"
#include "coordinator/frontend/openai_answer_writer.h"
#include "coordinator/frontend/openai_request.h"
#include "coordinator/frontend/prefill_estimate.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// What generations share; all must outlive them.
struct GenerationPlace {
  const Tokenizer& tokenizer;
  Scheduler& scheduler;
  PrefillEstimate& estimate;
  GenerationSet& live;
  int32_t eos_token_id = 0;
};

class OpenAiGeneration final
    : public std::enable_shared_from_this<OpenAiGeneration> {
 public:
  OpenAiGeneration(OpenAiRequest request, const GenerationPlace& place);
  ~OpenAiGeneration();

  const OpenAiRequest& request() const { return request_; }

  // Submits every choice, or none. `writer` is begun when all are accepted; it
  // then gets every piece on the engine's thread. The generation is in
  // place.live until its last choice has ended. Once. Errors: those of
  // TextSink::Create and Scheduler::Submit; the writer is not used.
  absl::Status Start(std::shared_ptr<AnswerWriter> writer);

  // Ends what has not ended. Any thread, any time.
  void Cancel();

 private:
  class ChoiceRun;

  absl::Status SubmitAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnChoiceEnd(int choice, int prompt, const RequestResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const OpenAiRequest request_;
  const GenerationPlace place_;

  // Held through calls of the engine's and while submitting, so that no token
  // comes before all choices are accepted. Taken before the writer's locks.
  Mutex mutex_;
  std::shared_ptr<AnswerWriter> writer_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<ChoiceRun>> runs_ ABSL_GUARDED_BY(mutex_);
  size_t num_running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_silent_ ABSL_GUARDED_BY(mutex_) = false;  // refused or failed
  AnswerUsage usage_ ABSL_GUARDED_BY(mutex_);

  // Of its own, so that whoever holds a lock of a client's can cancel.
  Mutex ids_mutex_;
  std::vector<RequestId> ids_ ABSL_GUARDED_BY(ids_mutex_);
};

}  // namespace deltafin
