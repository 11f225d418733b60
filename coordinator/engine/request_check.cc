#include "coordinator/engine/request_check.h"

#include <iterator>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/engine/sampler.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status CheckPrompt(const std::vector<int32_t>& ids, int vocab_size,
                         int64_t context_tokens) {
  if (ids.empty()) return absl::InvalidArgumentError("the prompt is empty");
  if (std::ssize(ids) > context_tokens) {
    return absl::InvalidArgumentError(
        fmt::format("the prompt has {} tokens, the context bound is {}; "
                    "shorten it, or give a larger --context",
                    ids.size(), context_tokens));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return absl::InvalidArgumentError(
        fmt::format("prompt id {} at position {} is not in [0, {})", ids[i], i,
                    vocab_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const GenerationRequest& request, int vocab_size,
                          int64_t context_tokens) {
  RETURN_IF_ERROR(CheckPrompt(request.prompt_ids, vocab_size, context_tokens));
  if (request.max_new_tokens < 0) {
    return absl::InvalidArgumentError(
        fmt::format("max_new_tokens is {}; it must not be negative",
                    request.max_new_tokens));
  }
  if (request.top_logprobs < 0 || request.top_logprobs > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(
        fmt::format("top_logprobs is {}; it must be in [0, {}]",
                    request.top_logprobs, kMaxTopLogprobs));
  }
  if (request.shared_prefix_tokens < 0 ||
      request.shared_prefix_tokens > std::ssize(request.prompt_ids)) {
    return absl::InvalidArgumentError(
        fmt::format("shared_prefix_tokens is {}; the prompt has {} tokens",
                    request.shared_prefix_tokens, request.prompt_ids.size()));
  }
  return ValidateSampling(request.sampling, vocab_size);
}

}  // namespace deltafin
