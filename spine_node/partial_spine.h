// spine_node/partial_spine.h
//
// A spine that holds some of a model's layers: a step enters it and leaves it
// between two layers. What a step carries from layer to layer is its hidden
// rows alone (docs/model.md section 3); states of sequences stay with the
// layers.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spine_node/spine.h"

namespace deltafin {

// The rows of a step between two layers, each [T, H] on the host.
struct StepRows {
  const float* prefix = nullptr;
  std::vector<const float*> snapshots;  // oldest first
};

class PartialSpine : public Spine {
 public:
  // Starts a step whose rows come from elsewhere, in place of Embed. Errors: as
  // Embed.
  virtual absl::Status BeginStep(std::span<const SequenceSlice> slices) = 0;
  // Gives the step its rows, before its first layer here; copied.
  virtual absl::Status SetRows(const StepRows& rows) = 0;
  // The rows after the last layer that ran; valid until the next call.
  virtual absl::StatusOr<StepRows> Rows() = 0;
  // Ends a step without logits: every sequence now holds its ids.
  virtual absl::Status EndStep() = 0;
};

}  // namespace deltafin
