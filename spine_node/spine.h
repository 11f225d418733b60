// spine_node/spine.h
//
// The spine: all of the model but its routed experts. One step at a time runs
// through it, layer by layer, driven by the coordinator's layer loop. Not
// thread-safe: one engine thread owns a spine and its sequences.
//
// Errors: OUT_OF_RANGE names layer and operator where inf, NaN or overflow
// arose; after any error the step is abandoned (AbandonStep) and the sequences
// in it hold an undefined state: they must be destroyed or truncated to a
// retained generation.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "spine_node/spine_types.h"

namespace deltafin {

class Spine {
 public:
  virtual ~Spine() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual SpineDescription description() const = 0;

  // A sequence that can grow to max_tokens. Errors: RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      int64_t max_tokens) = 0;
  // An independent copy of the state now that can grow to max_tokens: at least
  // what it holds. Its retained generations need not be copied. Errors:
  // RESOURCE_EXHAUSTED.
  virtual absl::StatusOr<std::unique_ptr<SequenceState>> Fork(
      const SequenceState& state, int64_t max_tokens) = 0;
  // Keeps the present state as a generation that TruncateTo can return to; the
  // oldest go when the option's bytes are exceeded.
  virtual absl::Status RetainGeneration(SequenceState& state) = 0;
  // Goes back to the newest retained generation at or before num_tokens (0 if
  // none) and returns its length: the caller feeds the ids from there again
  // (same bits).
  virtual absl::StatusOr<int64_t> TruncateTo(SequenceState& state,
                                             int64_t num_tokens) = 0;

  // Takes back the last num_tokens ids of the step that the sequence was in
  // last, all of them drafts (SequenceSlice); the others stay. Exact: what
  // follows has the bits that it would have had without them. Between steps.
  // Errors: FAILED_PRECONDITION when there are not so many drafts,
  // UNIMPLEMENTED where description().max_drafts is 0.
  virtual absl::Status TakeBack(SequenceState& /*state*/, int /*num_tokens*/) {
    return absl::UnimplementedError("this spine cannot take drafts back");
  }

  // --- one step; calls in this order, layers ascending ---

  // Starts a step over the slices (each ids non-empty, each id in [0, V)):
  // reads the embedding rows. T = sum of ids.
  virtual absl::Status Embed(std::span<const SequenceSlice> slices) = 0;
  // Attention residual mix, norm, KDA or MLA, prefix update. Advances the
  // sequences' state of this layer.
  virtual absl::Status Attend(int layer) = 0;
  // Dense layers: residual mix, norm, MLP, prefix update.
  virtual absl::Status DenseMlp(int layer) = 0;
  // MoE layers: residual mix, norm, router, latent down-projection.
  virtual absl::StatusOr<RoutedTokens> Route(int layer) = 0;
  // Shared experts of the layer; runs while the routed ones are away.
  virtual absl::Status SharedExperts(int layer) = 0;
  // While the routed experts of the layer before are away, after its
  // SharedExperts: which experts `layer` will probably want, [T, K] ascending
  // in each row, valid until the next call. Its router over what is known
  // already; changes nothing of the step. Empty where this spine does not
  // guess: dense layers, large steps.
  virtual std::span<const int32_t> PredictExperts(int /*layer*/) { return {}; }
  // sums: [T, L] i64 fixed point, complete. Norm, up-projection, + shared,
  // prefix update.
  virtual absl::Status AddRoutedExperts(int layer,
                                        std::span<const int64_t> sums) = 0;
  // Rows asked for by the slices, in slice order then position order, [rows,
  // V]; ends the step: every sequence now holds its ids. The result lives until
  // the next step.
  virtual absl::StatusOr<std::span<const float>> Logits() = 0;
  // Ends a step that failed or was cancelled.
  virtual void AbandonStep() = 0;

  virtual SpineTimings TakeTimings() = 0;
};

}  // namespace deltafin
