// coordinator/engine/speculation.h
//
// Speculative decoding of a step: lets requests guess, decides how many guesses
// to send, learns from what became of them. Lossless: a guess only saves a step
// where the sampler draws the same token. Belongs to the engine thread.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/engine/draft_policy.h"
#include "coordinator/engine/live_request.h"
#include "coordinator/engine/step_batch.h"

namespace deltafin {

// Totals since start.
struct SpeculationStats {
  int64_t steps = 0;     // that carried drafts
  int64_t drafted = 0;   // tokens sent as drafts
  int64_t accepted = 0;  // of them, drawn as well
};

class Speculation {
 public:
  // max_drafts: of a request in one step, as the spine can take back; 0: there
  // is no speculation.
  explicit Speculation(int max_drafts) : max_drafts_(max_drafts) {}

  // Before a step is formed of `live`: what those that decode will send along.
  void Plan(std::span<LiveRequest* const> live);
  // For each request of the step whose rows were taken: what its guess was
  // worth.
  void AddOutcome(const DraftOutcome& outcome, int num_sent);
  // After the rows of a step were taken.
  void AddStep(const StepBatch& batch, const StepCost& cost);

  const SpeculationStats& stats() const { return stats_; }

 private:
  const int max_drafts_;
  DraftPolicy policy_;
  size_t num_planned_ = 0;  // requests
  int accepted_ = 0;        // in the step under way
  SpeculationStats stats_;
};

}  // namespace deltafin
