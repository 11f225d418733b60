// spine_node/memory_needs.h
//
// What a CPU spine asks of this machine's memory and disk, from the config
// alone: the RAM budget is settled before anything is loaded.
#pragma once

#include <cstdint>

#include "common/base/model_spec.h"
#include "spine_node/options.h"

namespace deltafin {

struct SpineMemoryNeeds {
  int64_t weight_bytes = 0;          // resident weights
  int64_t sequence_fixed_bytes = 0;  // per sequence: KDA matrices, short conv
  int64_t sequence_token_bytes = 0;  // per token and sequence: MLA latent cache
  int64_t step_fixed_bytes = 0;      // scratch of a step, whatever its size
  int64_t step_token_bytes = 0;      // and per token of the step
  int64_t int8_file_bytes = 0;       // disk for the int8 spine; 0 with bf16
};

SpineMemoryNeeds SpineNeeds(const ModelSpec& spec, SpinePrecision precision);

}  // namespace deltafin
