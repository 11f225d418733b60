#include "coordinator/engine/forward_pass.h"

#include "absl/time/clock.h"
#include "common/base/status_macros.h"

namespace deltafin {

ForwardPass::ForwardPass(Spine& spine, RoutedExperts& experts)
    : spine_(spine), experts_(experts) {}

absl::StatusOr<std::span<const float>> ForwardPass::Step(
    std::span<const SequenceSlice> slices,
    const std::function<bool()>& cancelled) {
  ++step_;
  const absl::Time begun = absl::Now();
  absl::StatusOr<std::span<const float>> logits;
  if (absl::Status status = RunLayers(slices, cancelled); status.ok()) {
    logits = spine_.Logits();
  } else {
    logits = std::move(status);
  }
  if (!logits.ok()) {
    experts_.Abandon(step_);
    spine_.AbandonStep();
  }
  last_step_.seconds = absl::ToDoubleSeconds(absl::Now() - begun);
  last_step_.experts.Clear();
  last_step_.experts.Add(experts_.trace());
  CollectTimings();
  return logits;
}

absl::Status ForwardPass::RunLayers(std::span<const SequenceSlice> slices,
                                    const std::function<bool()>& cancelled) {
  RETURN_IF_ERROR(spine_.Embed(slices));
  for (int layer = 0; layer < spine_.spec().num_hidden_layers; ++layer) {
    if (cancelled()) return absl::CancelledError("step abandoned");
    RETURN_IF_ERROR(RunLayer(layer, cancelled));
    ++stats_.layers;
  }
  return absl::OkStatus();
}

absl::Status ForwardPass::RunLayer(int layer,
                                   const std::function<bool()>& cancelled) {
  RETURN_IF_ERROR(spine_.Attend(layer));
  if (!spine_.spec().is_moe(layer)) return spine_.DenseMlp(layer);
  ASSIGN_OR_RETURN(const RoutedTokens routed, spine_.Route(layer));
  RETURN_IF_ERROR(experts_.Start(step_, layer, routed));
  novelty_.Add(layer, routed);
  RETURN_IF_ERROR(spine_.SharedExperts(layer));
  if (layer + 1 < spine_.spec().num_hidden_layers && experts_.WantsHints()) {
    experts_.Expect(layer + 1, spine_.PredictExperts(layer + 1));
  }
  ASSIGN_OR_RETURN(const auto sums, experts_.Wait(cancelled));
  return spine_.AddRoutedExperts(layer, sums);
}

void ForwardPass::CollectTimings() {
  const SpineTimings spine = spine_.TakeTimings();
  stats_.spine.read += spine.read;
  stats_.spine.attention += spine.attention;
  stats_.spine.compute += spine.compute;
  stats_.spine.head += spine.head;
  const ExpertTimings experts = experts_.TakeTimings();
  stats_.experts_read += experts.read;
  stats_.experts_compute += experts.compute;
  stats_.network += experts.network;
}

}  // namespace deltafin
