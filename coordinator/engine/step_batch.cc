#include "coordinator/engine/step_batch.h"

#include <algorithm>

namespace deltafin {
namespace {

void Add(LiveRequest* request, int num_ids, StepBatch* batch) {
  batch->requests.push_back(request);
  batch->slices.push_back(request->NextSlice(num_ids));
  batch->draft_tokens += batch->slices.back().num_drafts;
}

}  // namespace

StepBatch FormStepBatch(std::span<LiveRequest* const> live,
                        const StepBounds& bounds) {
  const auto alone = std::find_if(
      live.begin(), live.end(),
      [](const LiveRequest* request) { return request->must_run_alone(); });
  if (alone != live.end()) live = live.subspan(alone - live.begin(), 1);

  StepBatch batch;
  int64_t budget = bounds.prefill_chunk;
  for (LiveRequest* request : live) {
    if (request->is_decoding()) {
      Add(request, 1, &batch);
      ++batch.decode_tokens;
      continue;
    }
    int64_t num_ids = std::min(budget, request->num_feedable());
    if (request->wants_all_logits()) {
      num_ids = std::min<int64_t>(num_ids, bounds.max_logits_rows);
    }
    if (num_ids == 0) continue;
    Add(request, static_cast<int>(num_ids), &batch);
    batch.prefill_tokens += num_ids;
    budget -= num_ids;
  }
  return batch;
}

}  // namespace deltafin
