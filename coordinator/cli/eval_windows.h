// coordinator/cli/eval_windows.h
//
// A text cut into windows that are evaluated one by one: each begins with BOS
// and holds the next window - 1 tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "coordinator/cli/generation.h"

namespace deltafin {

using Windows = std::vector<std::vector<int32_t>>;

// max_windows 0: all of the text. The last window may be shorter; every window
// predicts at least one token. REQUIRES: window >= 2.
Windows CutWindows(std::span<const int32_t> ids, int32_t bos, int window,
                   int max_windows);

// Called for each predicted token with the logits that predict it.
using RowCallback =
    std::function<absl::Status(int32_t id, std::span<const float> logits)>;

// Runs the windows in order. Errors: those of the engine, or the first that
// `on_row` returned.
absl::Status EvaluateWindows(const Windows& windows, Generation& generation,
                             const RowCallback& on_row);

}  // namespace deltafin
