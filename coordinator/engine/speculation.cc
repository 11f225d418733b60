#include "coordinator/engine/speculation.h"

#include <algorithm>

namespace deltafin {

std::optional<SpeculationMode> ParseSpeculationMode(std::string_view name) {
  if (name == "off") return SpeculationMode::kOff;
  if (name == "auto") return SpeculationMode::kAuto;
  if (name == "force") return SpeculationMode::kForce;
  return std::nullopt;
}

void Speculation::Plan(std::span<LiveRequest* const> live) {
  num_planned_ = live.size();
  accepted_ = 0;
  policy_.BeginStep(static_cast<int>(live.size()));
  // Prompts in the step would hide what drafts cost.
  const bool all_decode = std::all_of(
      live.begin(), live.end(),
      [](const LiveRequest* request) { return request->is_decoding(); });
  for (LiveRequest* request : live) {
    const SpeculationMode mode = request->speculation();
    const bool guesses = mode == SpeculationMode::kForce ||
                         (mode == SpeculationMode::kAuto && all_decode);
    const Draft& draft = request->Guess(guesses ? max_drafts_ : 0);
    const int offered = static_cast<int>(draft.ids.size());
    request->SendDrafts(mode == SpeculationMode::kForce
                            ? offered
                            : policy_.Choose(draft.match_length, offered));
  }
}

void Speculation::AddOutcome(const DraftOutcome& outcome, int num_sent) {
  policy_.AddOutcome(outcome);
  if (num_sent == 0) return;
  stats_.drafted += num_sent;
  stats_.accepted += outcome.accepted;
  accepted_ += outcome.accepted;
}

void Speculation::AddStep(const StepBatch& batch, const StepCost& cost) {
  if (batch.draft_tokens > 0) ++stats_.steps;
  if (batch.prefill_tokens > 0 || batch.requests.size() != num_planned_) return;
  policy_.AddStep(cost, static_cast<int>(batch.draft_tokens), accepted_);
}

}  // namespace deltafin
