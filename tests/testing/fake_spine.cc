#include "tests/testing/fake_spine.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"

namespace deltafin::testing {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

// In [-1, 1), exact in 24 bits.
float UnitFloat(uint64_t hash) {
  return static_cast<float>(hash >> 40) * 0x1p-23f - 1;
}

class FakeState : public SequenceState {
 public:
  FakeState(const FakeSpineOptions& options, int64_t max_tokens,
            std::shared_ptr<std::atomic<int>> live)
      : options(options),
        carry(options.num_layers, 1),
        max_tokens(max_tokens),
        live_(std::move(live)) {
    ++*live_;
  }
  FakeState(const FakeState& other) = delete;
  ~FakeState() override { --*live_; }

  int64_t num_tokens() const override { return length; }
  int64_t bytes() const override {
    return options.sequence_fixed_bytes + options.sequence_token_bytes * length;
  }

  const FakeSpineOptions& options;
  std::vector<uint64_t> carry;  // per layer
  // Per draft of the last step: `carry` before it.
  std::vector<std::vector<uint64_t>> before_draft;
  int64_t length = 0;
  int64_t max_tokens = 0;
  bool undefined = false;

 private:
  std::shared_ptr<std::atomic<int>> live_;
};

FakeState& Of(SequenceState* state) { return static_cast<FakeState&>(*state); }

absl::Status Misuse(const char* what) {
  return absl::InternalError(fmt::format("fake spine misused: {}", what));
}

}  // namespace

FakeSpine::FakeSpine(FakeSpineOptions options)
    : options_(std::move(options)),
      num_sequences_(std::make_shared<std::atomic<int>>(0)) {
  spec_.vocab_size = options_.vocab_size;
  spec_.num_hidden_layers = options_.num_layers;
  spec_.first_k_dense_replace = 1;
  spec_.num_experts = options_.num_experts;
  spec_.num_experts_per_token = options_.top_k;
  spec_.routed_expert_hidden_size = options_.latent_size;
  spec_.moe_intermediate_size = options_.intermediate_size;
  spec_.eos_token_id = options_.eos_token_id;
}

SpineDescription FakeSpine::description() const {
  SpineDescription description;
  description.name = "fake";
  description.sequence_fixed_bytes = options_.sequence_fixed_bytes;
  description.sequence_token_bytes = options_.sequence_token_bytes;
  description.max_drafts = options_.max_drafts;
  return description;
}

absl::StatusOr<std::unique_ptr<SequenceState>> FakeSpine::NewSequence(
    int64_t max_tokens) {
  if (*num_sequences_ >= options_.max_sequences) {
    return absl::ResourceExhaustedError("fake spine: too many sequences");
  }
  return std::make_unique<FakeState>(options_, max_tokens, num_sequences_);
}

absl::StatusOr<std::unique_ptr<SequenceState>> FakeSpine::Fork(
    const SequenceState& state, int64_t max_tokens) {
  const auto& fake = static_cast<const FakeState&>(state);
  if (fake.undefined) return Misuse("a state of a failed step");
  if (fake.length > max_tokens) return Misuse("a copy that is too short");
  if (*num_sequences_ >= options_.max_sequences) {
    return absl::ResourceExhaustedError("fake spine: too many sequences");
  }
  auto copy = std::make_unique<FakeState>(options_, max_tokens, num_sequences_);
  copy->carry = fake.carry;
  copy->before_draft = fake.before_draft;
  copy->length = fake.length;
  return copy;
}

absl::Status FakeSpine::RetainGeneration(SequenceState&) {
  return absl::OkStatus();
}

absl::StatusOr<int64_t> FakeSpine::TruncateTo(SequenceState& state, int64_t) {
  FakeState& fake = Of(&state);
  std::fill(fake.carry.begin(), fake.carry.end(), 1);
  fake.before_draft.clear();
  fake.length = 0;
  fake.undefined = false;
  return 0;
}

absl::Status FakeSpine::TakeBack(SequenceState& state, int num_tokens) {
  FakeState& fake = Of(&state);
  if (fake.undefined) return Misuse("a state of a failed step");
  if (num_tokens > std::ssize(fake.before_draft)) {
    return Misuse("more taken back than there were drafts");
  }
  if (num_tokens == 0) return absl::OkStatus();
  const size_t kept = fake.before_draft.size() - num_tokens;
  fake.carry = fake.before_draft[kept];
  fake.before_draft.resize(kept);
  fake.length -= num_tokens;
  return absl::OkStatus();
}

absl::Status FakeSpine::Embed(std::span<const SequenceSlice> slices) {
  if (phase_ != Phase::kIdle) return Misuse("Embed within a step");
  slices_.assign(slices.begin(), slices.end());
  hidden_.clear();
  for (const SequenceSlice& slice : slices_) {
    const FakeState& state = Of(slice.state);
    if (state.undefined) return Misuse("a state of a failed step");
    if (slice.ids.empty()) return Misuse("an empty slice");
    if (slice.num_drafts < 0 || slice.num_drafts > options_.max_drafts ||
        slice.num_drafts >= std::ssize(slice.ids)) {
      return Misuse("too many drafts");
    }
    Of(slice.state)
        .before_draft.assign(slice.num_drafts,
                             std::vector<uint64_t>(options_.num_layers));
    if (state.length + std::ssize(slice.ids) > state.max_tokens) {
      return Misuse("a sequence longer than it asked for");
    }
    for (const int32_t id : slice.ids) hidden_.push_back(Mix(2, id));
  }
  phase_ = Phase::kAttend;
  layer_ = 0;
  return absl::OkStatus();
}

absl::Status FakeSpine::Attend(int layer) {
  RETURN_IF_ERROR(Expect(Phase::kAttend, layer));
  if (options_.on_attend) options_.on_attend(layer);
  size_t token = 0;
  for (const SequenceSlice& slice : slices_) {
    FakeState& state = Of(slice.state);
    uint64_t& carry = state.carry[layer];
    int64_t until_draft = std::ssize(slice.ids) - slice.num_drafts;
    for (const int32_t id : slice.ids) {
      const bool is_draft = until_draft-- <= 0;
      if (is_draft) state.before_draft[-until_draft - 1][layer] = carry;
      const bool is_poison = id == options_.poison_id ||
                             (is_draft && id == options_.poisonous_draft);
      if (is_poison && layer + 1 == options_.num_layers) {
        return absl::OutOfRangeError(
            fmt::format("layer {} attention: not finite", layer));
      }
      carry = Mix(carry, hidden_[token]);
      hidden_[token] = Mix(hidden_[token], carry);
      ++token;
    }
  }
  phase_ = Phase::kFeedForward;
  return absl::OkStatus();
}

absl::Status FakeSpine::DenseMlp(int layer) {
  RETURN_IF_ERROR(Expect(Phase::kFeedForward, layer));
  if (spec_.is_moe(layer)) return Misuse("DenseMlp in a MoE layer");
  NextLayer();
  return absl::OkStatus();
}

absl::StatusOr<RoutedTokens> FakeSpine::Route(int layer) {
  RETURN_IF_ERROR(Expect(Phase::kFeedForward, layer));
  if (!spec_.is_moe(layer)) return Misuse("Route in a dense layer");
  phase_ = Phase::kRouted;
  experts_.clear();
  weights_.clear();
  latent_.clear();
  for (const uint64_t hidden : hidden_) {
    // K distinct ids, ascending.
    const int stride = options_.num_experts / options_.top_k;
    for (int k = 0; k < options_.top_k; ++k) {
      const uint64_t hash = Mix(hidden, 100 + k);
      experts_.push_back(k * stride + static_cast<int>(hash % stride));
      weights_.push_back(UnitFloat(Mix(hash, 3)) + 1);
    }
    for (int i = 0; i < options_.latent_size; ++i) {
      latent_.push_back(UnitFloat(Mix(hidden, 1000 + i)));
    }
  }
  return RoutedTokens{static_cast<int>(hidden_.size()), options_.top_k,
                      experts_, weights_, latent_};
}

absl::Status FakeSpine::SharedExperts(int layer) {
  return Expect(Phase::kRouted, layer);
}

absl::Status FakeSpine::AddRoutedExperts(int layer,
                                         std::span<const int64_t> sums) {
  RETURN_IF_ERROR(Expect(Phase::kRouted, layer));
  const size_t width = options_.latent_size;
  if (sums.size() != hidden_.size() * width) return Misuse("sums of a size");
  for (size_t token = 0; token < hidden_.size(); ++token) {
    for (const int64_t sum : sums.subspan(token * width, width)) {
      hidden_[token] = Mix(hidden_[token], static_cast<uint64_t>(sum));
    }
  }
  NextLayer();
  return absl::OkStatus();
}

absl::StatusOr<std::span<const float>> FakeSpine::Logits() {
  if (phase_ != Phase::kAttend || layer_ != options_.num_layers) {
    return Misuse("Logits before the last layer");
  }
  logits_.clear();
  size_t token = 0;
  for (const SequenceSlice& slice : slices_) {
    Of(slice.state).length += std::ssize(slice.ids);
    for (size_t i = 0; i < slice.ids.size(); ++i, ++token) {
      const bool wanted =
          slice.logits == LogitsRows::kAll ||
          (slice.logits == LogitsRows::kLast && i + 1 == slice.ids.size());
      for (int id = 0; wanted && id < options_.vocab_size; ++id) {
        logits_.push_back(8 * UnitFloat(Mix(hidden_[token], id)));
      }
    }
  }
  phase_ = Phase::kIdle;
  return std::span<const float>(logits_);
}

void FakeSpine::AbandonStep() {
  for (const SequenceSlice& slice : slices_) Of(slice.state).undefined = true;
  slices_.clear();
  phase_ = Phase::kIdle;
  ++steps_abandoned_;
}

SpineTimings FakeSpine::TakeTimings() { return {0.25, 0.5, 1, 2}; }

absl::Status FakeSpine::Expect(Phase phase, int layer) {
  if (phase_ != phase || layer_ != layer) return Misuse("calls out of order");
  return absl::OkStatus();
}

void FakeSpine::NextLayer() {
  phase_ = Phase::kAttend;
  ++layer_;
}

}  // namespace deltafin::testing
