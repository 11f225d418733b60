// tests/testing/synthetic_model.h
//
// Writes a model directory in the released format with generated weights:
// config, index, one shard a layer and one for embedding and head, tokenizer.
// Streamed to disk: a model larger than RAM can be made.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/base/model_spec.h"

namespace deltafin {

struct SyntheticModelOptions {
  ModelSpec spec;
  uint64_t seed = 1;
  // Where tiktoken.model, tokenizer_config.json and generation_config.json are
  // copied from. Empty: the repository's folder for spec.vocab_size (640:
  // tiny-a, 4,096: k3-nano).
  std::string tokenizer_dir;
};

// Creates `dir` and fills it; config.json comes last, so a directory with one
// is complete. `progress(done_bytes, total_bytes)` may be empty. Errors:
// INVALID_ARGUMENT when no tokenizer fits, those of writing otherwise.
absl::Status MakeSyntheticModel(
    const SyntheticModelOptions& options, const std::string& dir,
    const std::function<void(uint64_t, uint64_t)>& progress = {});

}  // namespace deltafin
