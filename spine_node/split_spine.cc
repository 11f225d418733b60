#include "spine_node/split_spine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

class SplitSequence : public SequenceState {
 public:
  SplitSequence(std::unique_ptr<SequenceState> front,
                std::unique_ptr<SequenceState> back)
      : front_(std::move(front)), back_(std::move(back)) {}

  int64_t num_tokens() const override { return back_->num_tokens(); }
  int64_t bytes() const override { return front_->bytes() + back_->bytes(); }
  SequenceState& front() const { return *front_; }
  SequenceState& back() const { return *back_; }

 private:
  std::unique_ptr<SequenceState> front_;
  std::unique_ptr<SequenceState> back_;
};

absl::StatusOr<const SplitSequence*> OwnSequence(const SequenceState* state) {
  const auto* own = dynamic_cast<const SplitSequence*>(state);
  if (own != nullptr) return own;
  return absl::InvalidArgumentError(
      "the sequence was not made by this spine, which is split over devices");
}

void AddTimings(const SpineTimings& from, SpineTimings& to) {
  to.read += from.read;
  to.attention += from.attention;
  to.compute += from.compute;
  to.head += from.head;
  to.stream += from.stream;
  to.stream_bytes += from.stream_bytes;
}

class SplitSpine : public Spine {
 public:
  SplitSpine(std::unique_ptr<PartialSpine> front,
             std::unique_ptr<PartialSpine> back, int num_front_layers)
      : front_(std::move(front)),
        back_(std::move(back)),
        num_front_layers_(num_front_layers) {}

  const ModelSpec& spec() const override { return back_->spec(); }
  SpineDescription description() const override;

  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      int64_t max_tokens) override;
  absl::StatusOr<std::unique_ptr<SequenceState>> Fork(
      const SequenceState& state, int64_t max_tokens) override;
  absl::Status RetainGeneration(SequenceState& state) override;
  absl::StatusOr<int64_t> TruncateTo(SequenceState& state,
                                     int64_t num_tokens) override;

  absl::Status Embed(std::span<const SequenceSlice> slices) override;
  absl::Status Attend(int layer) override;
  absl::Status DenseMlp(int layer) override {
    return Of(layer).DenseMlp(layer);
  }
  absl::StatusOr<RoutedTokens> Route(int layer) override {
    return Of(layer).Route(layer);
  }
  absl::Status SharedExperts(int layer) override {
    return Of(layer).SharedExperts(layer);
  }
  std::span<const int32_t> PredictExperts(int layer) override;
  absl::Status AddRoutedExperts(int layer,
                                std::span<const int64_t> sums) override {
    return Of(layer).AddRoutedExperts(layer, sums);
  }
  absl::StatusOr<std::span<const float>> Logits() override;
  void AbandonStep() override;
  SpineTimings TakeTimings() override;

 private:
  Spine& Of(int layer) {
    if (layer < num_front_layers_) return *front_;
    return *back_;
  }
  // Gives the rows to the back, once a step.
  absl::Status HandOver();

  const std::unique_ptr<PartialSpine> front_;
  const std::unique_ptr<PartialSpine> back_;
  const int num_front_layers_;
  bool handed_over_ = false;
};

SpineDescription SplitSpine::description() const {
  const SpineDescription front = front_->description();
  SpineDescription both = back_->description();
  both.name = front.name + "+" + both.name;
  both.weight_bytes += front.weight_bytes;
  both.sequence_fixed_bytes += front.sequence_fixed_bytes;
  both.sequence_token_bytes += front.sequence_token_bytes;
  both.max_drafts = 0;  // the front takes none
  both.sequence_draft_bytes = 0;
  return both;
}

absl::StatusOr<std::unique_ptr<SequenceState>> SplitSpine::NewSequence(
    int64_t max_tokens) {
  ASSIGN_OR_RETURN(auto front, front_->NewSequence(max_tokens));
  ASSIGN_OR_RETURN(auto back, back_->NewSequence(max_tokens));
  return std::make_unique<SplitSequence>(std::move(front), std::move(back));
}

absl::StatusOr<std::unique_ptr<SequenceState>> SplitSpine::Fork(
    const SequenceState& state, int64_t max_tokens) {
  ASSIGN_OR_RETURN(const SplitSequence* own, OwnSequence(&state));
  ASSIGN_OR_RETURN(auto front, front_->Fork(own->front(), max_tokens));
  ASSIGN_OR_RETURN(auto back, back_->Fork(own->back(), max_tokens));
  return std::make_unique<SplitSequence>(std::move(front), std::move(back));
}

absl::Status SplitSpine::RetainGeneration(SequenceState& state) {
  ASSIGN_OR_RETURN(const SplitSequence* own, OwnSequence(&state));
  RETURN_IF_ERROR(front_->RetainGeneration(own->front()));
  return back_->RetainGeneration(own->back());
}

// The two may have kept different generations: back to one that both have, at
// last to none.
absl::StatusOr<int64_t> SplitSpine::TruncateTo(SequenceState& state,
                                               int64_t num_tokens) {
  ASSIGN_OR_RETURN(const SplitSequence* own, OwnSequence(&state));
  for (;;) {
    ASSIGN_OR_RETURN(const int64_t front,
                     front_->TruncateTo(own->front(), num_tokens));
    ASSIGN_OR_RETURN(const int64_t back, back_->TruncateTo(own->back(), front));
    if (front == back) return back;
    num_tokens = back;
  }
}

absl::Status SplitSpine::Embed(std::span<const SequenceSlice> slices) {
  std::vector<SequenceSlice> front, back;
  for (const SequenceSlice& slice : slices) {
    ASSIGN_OR_RETURN(const SplitSequence* own, OwnSequence(slice.state));
    back.push_back(slice);
    back.back().state = &own->back();
    front.push_back(slice);
    front.back().state = &own->front();
    front.back().logits = LogitsRows::kNone;
  }
  handed_over_ = false;
  RETURN_IF_ERROR(back_->BeginStep(back));
  return front_->Embed(front);
}

absl::Status SplitSpine::Attend(int layer) {
  if (layer >= num_front_layers_) RETURN_IF_ERROR(HandOver());
  return Of(layer).Attend(layer);
}

absl::Status SplitSpine::HandOver() {
  if (handed_over_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const StepRows rows, front_->Rows());
  RETURN_IF_ERROR(back_->SetRows(rows));
  handed_over_ = true;
  return absl::OkStatus();
}

// The first layer of the back knows nothing yet of the step.
std::span<const int32_t> SplitSpine::PredictExperts(int layer) {
  if (layer == num_front_layers_) return {};
  return Of(layer).PredictExperts(layer);
}

absl::StatusOr<std::span<const float>> SplitSpine::Logits() {
  RETURN_IF_ERROR(HandOver());
  ASSIGN_OR_RETURN(const std::span<const float> logits, back_->Logits());
  RETURN_IF_ERROR(front_->EndStep());
  return logits;
}

void SplitSpine::AbandonStep() {
  front_->AbandonStep();
  back_->AbandonStep();
}

SpineTimings SplitSpine::TakeTimings() {
  SpineTimings timings = front_->TakeTimings();
  AddTimings(back_->TakeTimings(), timings);
  return timings;
}

}  // namespace

std::unique_ptr<Spine> MakeSplitSpine(std::unique_ptr<PartialSpine> front,
                                      std::unique_ptr<PartialSpine> back,
                                      int num_front_layers) {
  return std::make_unique<SplitSpine>(std::move(front), std::move(back),
                                      num_front_layers);
}

}  // namespace deltafin
