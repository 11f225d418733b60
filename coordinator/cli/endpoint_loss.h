// coordinator/cli/endpoint_loss.h
//
// How well the model behind an endpoint predicts a text: /v1/completions with
// echo, logprobs and max_tokens 0 scores a prompt without generating.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cli/endpoint_client.h"
#include "coordinator/cli/eval_windows.h"
#include "coordinator/cli/loss.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

enum class WindowForm : uint8_t {
  kText,  // any model: it cuts the text into tokens of its own
  kIds,   // the same model, or one with its tokenizer: the very windows
};

struct EndpointModel {
  Endpoint endpoint;
  std::string name;
  WindowForm form = WindowForm::kText;
};

// Scores the windows one by one. The first token of each is given, not
// predicted. Errors: those of PostJson; INTERNAL for an answer without
// log-probabilities.
absl::Status MeasureEndpoint(const EndpointModel& model, const Windows& windows,
                             const Tokenizer& tokenizer, LossMeter& loss);

// Adds what one answer says of a window whose bytes after the first token, as
// far as they are predicted, are `predicted_bytes` or, if negative, those of
// its tokens but the first. Errors: INTERNAL.
absl::Status AddScores(std::string_view answer, int64_t predicted_bytes,
                       LossMeter& loss);

}  // namespace deltafin
