// coordinator/engine/step_batch.h
//
// Which tokens of which requests share the next step. Pure but for the
// requests' note of what they were asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/engine/live_request.h"
#include "spine_node/spine_types.h"

namespace deltafin {

struct StepBatch {
  std::vector<LiveRequest*> requests;
  std::vector<SequenceSlice> slices;  // of the request at the same index
  int64_t prefill_tokens = 0;
  int64_t decode_tokens = 0;
  int64_t draft_tokens = 0;  // beside the decoded ones
};

struct StepBounds {
  int prefill_chunk = 0;    // prompt tokens, over all requests
  int max_logits_rows = 0;  // rows of one request that wants them all
};

// Every decoding request's row, and prompt tokens in order of arrival up to the
// bounds. A request that must run alone gets a step of its own. `live`: in
// order of arrival, each with a state.
StepBatch FormStepBatch(std::span<LiveRequest* const> live,
                        const StepBounds& bounds);

}  // namespace deltafin
