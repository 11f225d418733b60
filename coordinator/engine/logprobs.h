// coordinator/engine/logprobs.h
//
// Log-probabilities of the model's own distribution: softmax of the logits
// before penalties, bias and temperature. For display; computed in f64 outside
// the numerics contract. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/engine/request.h"

namespace deltafin {

inline constexpr int kMaxTopLogprobs = 20;

struct Logprobs {
  float chosen = 0;
  std::vector<TokenLogprob> top;  // descending, equal ones by lower id
};

// REQUIRES: logits non-empty and finite, id an index of it, 0 <= num_top.
Logprobs ComputeLogprobs(std::span<const float> logits, int32_t id,
                         int num_top);

}  // namespace deltafin
