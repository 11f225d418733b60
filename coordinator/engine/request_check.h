// coordinator/engine/request_check.h
//
// What is refused of a request whatever else runs, so that it can be refused
// before a model is loaded.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "coordinator/engine/request.h"

namespace deltafin {

// Errors: INVALID_ARGUMENT (empty prompt, id out of range, prompt over the
// context bound, option out of range: named).
absl::Status CheckRequest(const GenerationRequest& request, int vocab_size,
                          int64_t context_tokens);

}  // namespace deltafin
