// spine_node/cpu/cpu_spine.h
//
// The spine on our own CPU kernels: the numerics contract of docs/numerics.md
// holds, so a sequence's logits do not depend on threads, kernel target, prompt
// cuts or batch companions. Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spine_node/cpu/attention_residual.h"
#include "spine_node/cpu/operator_status.h"
#include "spine_node/cpu/sequence_state.h"
#include "spine_node/cpu/step.h"
#include "spine_node/options.h"
#include "spine_node/partial_spine.h"
#include "spine_node/spine_weights.h"

namespace deltafin {

struct CpuLayers;

class CpuSpine : public PartialSpine {
 public:
  // Errors: RESOURCE_EXHAUSTED when scratch memory is refused.
  static absl::StatusOr<std::unique_ptr<PartialSpine>> Create(
      SpineWeights weights, const SpineOptions& options);
  ~CpuSpine() override;

  const ModelSpec& spec() const override { return weights_.spec; }
  SpineDescription description() const override;

  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      int64_t max_tokens) override;
  absl::StatusOr<std::unique_ptr<SequenceState>> Fork(
      const SequenceState& state, int64_t max_tokens) override;
  absl::Status RetainGeneration(SequenceState& state) override;
  absl::StatusOr<int64_t> TruncateTo(SequenceState& state,
                                     int64_t num_tokens) override;
  absl::Status TakeBack(SequenceState& state, int num_tokens) override;

  absl::Status Embed(std::span<const SequenceSlice> slices) override;
  absl::Status Attend(int layer) override;
  absl::Status DenseMlp(int layer) override;
  absl::StatusOr<RoutedTokens> Route(int layer) override;
  absl::Status SharedExperts(int layer) override;
  // Steps of at most kTokenGroup tokens: larger ones want nearly every expert.
  std::span<const int32_t> PredictExperts(int layer) override;
  absl::Status AddRoutedExperts(int layer,
                                std::span<const int64_t> sums) override;
  absl::StatusOr<std::span<const float>> Logits() override;
  void AbandonStep() override { step_.Abandon(); }

  absl::Status BeginStep(std::span<const SequenceSlice> slices) override;
  absl::Status SetRows(const StepRows& rows) override;
  absl::StatusOr<StepRows> Rows() override;
  absl::Status EndStep() override;

  SpineTimings TakeTimings() override;

 private:
  CpuSpine(SpineWeights weights, const SpineOptions& options);

  // Brings the rows of a layer that streams.
  absl::Status PrepareLayer(int layer);
  OperatorStatus AttendGroup(int layer, const TokenGroup& group);
  OperatorStatus RouteGroup(int layer, const TokenGroup& group);
  OperatorStatus AddRoutedGroup(int layer, const TokenGroup& group,
                                std::span<const int64_t> sums);
  ResidualRows ResidualsOf(const TokenGroup& group) const;
  // Mixture and norm in front of a feed-forward, x [T, H] of the group.
  OperatorStatus NormalizeForMlp(int layer, const TokenGroup& group, float* x);
  void AddToPrefix(const TokenGroup& group, const float* addend);

  // Runs body(group) over the step; names layer, sequence and position of an
  // error.
  template <typename Body>
  absl::Status ForEachGroup(int layer, Body body);
  absl::Status LocateError(const std::string& where, int token,
                           const OperatorStatus& error) const;

  SpineWeights weights_;
  SpineOptions options_;
  SequenceLayout sequence_layout_;
  SpineTimings timings_;
  Step step_;

  std::unique_ptr<CpuLayers> layers_;  // reads weights_, adds to timings_
  std::vector<float> logits_;
};

}  // namespace deltafin
