// spine_node/memory_needs.h
//
// What a CPU spine asks of this machine's memory and disk, from the config
// alone: the RAM budget is settled before anything is loaded. The scratch of
// the layers, bounded by a token group and about 0.3 GB for K3, is the
// reserve's.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/model_spec.h"
#include "spine_node/options.h"

namespace deltafin {

struct SpineMemoryNeeds {
  int64_t weight_bytes = 0;  // all weights in memory
  // Of them the rows of each layer, which may be streamed (residency.h).
  std::vector<uint64_t> layer_row_bytes;
  int64_t sequence_fixed_bytes = 0;  // per sequence: KDA matrices, short conv
  int64_t sequence_token_bytes = 0;  // per token and sequence: MLA latent cache
  int64_t sequence_draft_bytes = 0;  // per sequence that takes drafts
  int64_t step_token_bytes = 0;      // per token of the largest step
  int64_t int8_file_bytes = 0;       // disk for the int8 spine; 0 with bf16
};

// Of layers first_layer and later, and the head.
SpineMemoryNeeds SpineNeeds(const ModelSpec& spec, SpinePrecision precision,
                            int first_layer = 0);

}  // namespace deltafin
