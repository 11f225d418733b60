// tests/testing/fake_spine.h
//
// A spine without weights: integer hashes that mix ids, the layers' state and
// the experts' sums, so that logits depend on the sequence's own ids and on
// every term of every routed expert, and on nothing else. Checks that it is
// called as spine.h asks. Engine thread only, but for the counters.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "spine_node/spine.h"

namespace deltafin::testing {

struct FakeSpineOptions {
  int vocab_size = 61;
  int num_layers = 4;  // the first is dense
  int num_experts = 16;
  int top_k = 3;
  int latent_size = 32;
  int intermediate_size = 600;  // three slices, the last one short
  int32_t eos_token_id = 60;
  int64_t sequence_fixed_bytes = 1000;
  int64_t sequence_token_bytes = 10;
  int max_drafts = 7;
  // NewSequence and Fork fail with RESOURCE_EXHAUSTED beyond.
  int max_sequences = 1000;
  // A step whose ids hold this one fails with OUT_OF_RANGE at the last layer.
  std::optional<int32_t> poison_id;
  // Likewise, but only as a draft.
  std::optional<int32_t> poisonous_draft;
  // Called by Attend, on the engine thread.
  std::function<void(int layer)> on_attend;
};

class FakeSpine : public Spine {
 public:
  explicit FakeSpine(FakeSpineOptions options = {});

  const ModelSpec& spec() const override { return spec_; }
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
  absl::Status AddRoutedExperts(int layer,
                                std::span<const int64_t> sums) override;
  absl::StatusOr<std::span<const float>> Logits() override;
  void AbandonStep() override;
  SpineTimings TakeTimings() override;

  // Any thread.
  int num_sequences() const { return *num_sequences_; }
  int steps_abandoned() const { return steps_abandoned_; }

 private:
  // What must be called next.
  enum class Phase : uint8_t { kIdle, kAttend, kFeedForward, kRouted };

  absl::Status Expect(Phase phase, int layer);
  void NextLayer();

  const FakeSpineOptions options_;
  ModelSpec spec_;
  std::shared_ptr<std::atomic<int>> num_sequences_;
  std::atomic<int> steps_abandoned_ = 0;
  Phase phase_ = Phase::kIdle;
  int layer_ = 0;
  std::vector<SequenceSlice> slices_;
  std::vector<uint64_t> hidden_;  // per token of the step
  std::vector<int32_t> experts_;
  std::vector<float> weights_;
  std::vector<float> latent_;
  std::vector<float> logits_;
};

}  // namespace deltafin::testing
