// bench/recorded_routes.h
//
// The experts that a model's router chose for a text, token by token.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin::bench {

struct RecordedRoutes {
  int num_layers = 0;  // with routed experts
  int num_experts = 0;
  int top_k = 0;
  uint64_t expert_bytes = 0;
  // [tokens, layers, top_k], ascending within a layer.
  std::vector<int32_t> experts;

  int64_t num_tokens() const {
    return static_cast<int64_t>(experts.size()) / (num_layers * top_k);
  }
};

// Reads windows of `window` tokens of the text, each from an empty context, as
// `deltafin eval` does, until `max_tokens` are recorded or the text ends.
// Errors: of the tokenizer, the file, the spine.
absl::StatusOr<RecordedRoutes> RecordRoutes(const std::string& model_dir,
                                            const std::string& text_file,
                                            int window, int64_t max_tokens);

}  // namespace deltafin::bench
