// coordinator/cli/generation.h
//
// One generation from its submission to its end, awaited by the caller while
// text streams through a callback.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/coordinator.h"
#include "coordinator/frontend/text_sink.h"

namespace deltafin {

struct GenerationOutput {
  std::vector<int32_t> ids;
  std::string text;
  std::string reasoning;             // chat
  std::vector<ToolCall> tool_calls;  // chat
  struct Logprob {
    int32_t id = 0;
    float logprob = 0;
    std::vector<TokenLogprob> top;
  };
  std::vector<Logprob> logprobs;  // when the request wants them
  RequestResult result;           // its status is OK
};

// Both are called by the engine thread; either may be empty.
struct GenerationCallbacks {
  // Whole characters as they come.
  std::function<void(std::string_view content, std::string_view reasoning)>
      on_text;
  std::function<void(int64_t position, std::span<const float> logits)>
      on_logits;
};

// Thread-safe.
class Generation {
 public:
  // The coordinator must be started and outlive this.
  explicit Generation(Coordinator& coordinator) : coordinator_(coordinator) {}

  // Runs the request and waits for its end. One at a time. Errors: those of
  // Scheduler::Submit and of the request itself; text delivered before an error
  // stays delivered.
  absl::StatusOr<GenerationOutput> Run(GenerationRequest request,
                                       TextSinkOptions text,
                                       GenerationCallbacks callbacks);

  // Ends a running generation with CANCELLED within one layer. Returns false
  // when none runs.
  bool Cancel();

 private:
  Coordinator& coordinator_;
  Mutex mutex_;
  CondVar finished_;
  std::optional<RequestId> running_ ABSL_GUARDED_BY(mutex_);
  bool is_finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
