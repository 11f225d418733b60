#include "spine_node/cpu/cpu_spine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "spine_node/cpu/cpu_layers.h"
#include "spine_node/cpu/latent_projection.h"
#include "spine_node/cpu/stopwatch.h"
#include "spine_node/streamed_layers.h"

namespace deltafin {

namespace {

absl::Status NoStep() {
  return absl::FailedPreconditionError("no step is in flight");
}

absl::Status NotSettled() {
  return absl::FailedPreconditionError(
      "the sequence is of another spine, in a step, or was in one that failed");
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartialSpine>> CpuSpine::Create(
    SpineWeights weights, const SpineOptions& options) {
  auto spine =
      std::unique_ptr<CpuSpine>(new CpuSpine(std::move(weights), options));
  ASSIGN_OR_RETURN(
      spine->layers_,
      CpuLayers::Create(spine->weights_, spine->options_, spine->timings_));
  return spine;
}

CpuSpine::CpuSpine(SpineWeights weights, const SpineOptions& options)
    : weights_(std::move(weights)),
      options_(options),
      sequence_layout_(weights_.spec, options.first_layer),
      step_(weights_.spec) {}

CpuSpine::~CpuSpine() = default;

SpineDescription CpuSpine::description() const {
  const StreamedLayers* stream = weights_.stream.get();
  return {.name = options_.precision == SpinePrecision::kInt8 ? "cpu-int8"
                                                              : "cpu-bf16",
          .kernel = options_.kernel->name,
          .weight_bytes = static_cast<int64_t>(weights_.resident_bytes),
          .streamed_layers = stream == nullptr ? 0 : stream->num_layers(),
          .streamed_bytes = stream == nullptr ? 0 : stream->step_bytes(),
          .sequence_fixed_bytes = sequence_layout_.fixed_bytes(),
          .sequence_token_bytes = sequence_layout_.token_bytes(),
          .max_drafts = kMaxDrafts,
          .sequence_draft_bytes = sequence_layout_.draft_bytes()};
}

absl::StatusOr<std::unique_ptr<SequenceState>> CpuSpine::NewSequence(
    int64_t max_tokens) {
  if (max_tokens < 1 || max_tokens > spec().max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sequence of ", max_tokens, " tokens: the model takes 1 to ",
        spec().max_position_embeddings));
  }
  return CpuSequenceState::Create(sequence_layout_, max_tokens,
                                  options_.generation_bytes);
}

absl::StatusOr<std::unique_ptr<SequenceState>> CpuSpine::Fork(
    const SequenceState& state, int64_t max_tokens) {
  const auto* own = dynamic_cast<const CpuSequenceState*>(&state);
  if (own == nullptr || !own->settled()) return NotSettled();
  if (max_tokens < std::max<int64_t>(own->num_tokens(), 1) ||
      max_tokens > spec().max_position_embeddings) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a copy of ", own->num_tokens(), " tokens that may grow to ",
        max_tokens, ": the model takes 1 to ", spec().max_position_embeddings));
  }
  return own->Fork(max_tokens);
}

absl::Status CpuSpine::RetainGeneration(SequenceState& state) {
  auto* own = dynamic_cast<CpuSequenceState*>(&state);
  if (own == nullptr || !own->settled()) return NotSettled();
  return own->RetainGeneration();
}

absl::StatusOr<int64_t> CpuSpine::TruncateTo(SequenceState& state,
                                             int64_t num_tokens) {
  auto* own = dynamic_cast<CpuSequenceState*>(&state);
  if (own == nullptr || num_tokens < 0) {
    return absl::InvalidArgumentError(
        "truncation needs a sequence of this spine and a length of 0 or more");
  }
  if (step_.Holds(own)) {
    return absl::FailedPreconditionError(
        "a sequence cannot be truncated while its step is in flight");
  }
  return own->TruncateTo(num_tokens);
}

absl::Status CpuSpine::TakeBack(SequenceState& state, int num_tokens) {
  auto* own = dynamic_cast<CpuSequenceState*>(&state);
  if (own == nullptr || !own->settled()) return NotSettled();
  if (num_tokens < 0 || num_tokens > own->num_drafts()) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot take back ", num_tokens, " of the last ",
                     own->num_drafts(), " drafts"));
  }
  own->TakeBack(num_tokens);
  return absl::OkStatus();
}

absl::Status CpuSpine::BeginStep(std::span<const SequenceSlice> slices) {
  SetContractFloatingPointMode();
  return step_.Begin(slices);
}

absl::Status CpuSpine::SetRows(const StepRows& rows) {
  if (!step_.in_flight()) return NoStep();
  const size_t count = step_.prefix.width() * step_.num_tokens();
  std::copy_n(rows.prefix, count, step_.prefix.row(0));
  for (const float* snapshot : rows.snapshots) {
    std::copy_n(snapshot, count, step_.next_snapshot().row(0));
    step_.CommitSnapshot();
  }
  return absl::OkStatus();
}

absl::StatusOr<StepRows> CpuSpine::Rows() {
  if (!step_.in_flight()) return NoStep();
  StepRows rows;
  rows.prefix = step_.prefix.row(0);
  for (const FloatRows& snapshot : step_.snapshots()) {
    rows.snapshots.push_back(snapshot.row(0));
  }
  return rows;
}

absl::Status CpuSpine::EndStep() {
  if (!step_.in_flight()) return NoStep();
  if (weights_.stream != nullptr) weights_.stream->Finish();
  step_.Finish();
  return absl::OkStatus();
}

absl::Status CpuSpine::Embed(std::span<const SequenceSlice> slices) {
  RETURN_IF_ERROR(BeginStep(slices));
  ScopedTimer timer(timings_.read);
  float* out = step_.prefix.row(0);
  for (const SequenceSlice& slice : slices) {
    RETURN_IF_ERROR(layers_->embedding->Read(slice.ids, out));
    out += slice.ids.size() * spec().hidden_size;
  }
  return absl::OkStatus();
}

absl::Status CpuSpine::PrepareLayer(int layer) {
  if (weights_.stream == nullptr) return absl::OkStatus();
  ScopedTimer timer(timings_.read);
  return weights_.stream->Prepare(layer);
}

absl::Status CpuSpine::Attend(int layer) {
  const bool boundary = layer % spec().attn_res_block_size == 0;
  RETURN_IF_ERROR(PrepareLayer(layer));
  RETURN_IF_ERROR(ForEachGroup(layer, [&](const TokenGroup& group) {
    return AttendGroup(layer, group);
  }));
  if (boundary) step_.CommitSnapshot();
  return absl::OkStatus();
}

ResidualRows CpuSpine::ResidualsOf(const TokenGroup& group) const {
  return {step_.snapshots(), step_.prefix, group.first_token, group.num_tokens};
}

OperatorStatus CpuSpine::AttendGroup(int layer, const TokenGroup& group) {
  const LayerWeights& weights = weights_.layers[layer];
  const ResidualSite site = {weights.attention_residual, weights.input_norm,
                             "self_attention_res", "input_layernorm"};
  float* x = layers_->input.row(0);
  float* out = layers_->output.row(0);
  RETURN_IF_OPERATOR_FAILED(
      MixAndNormalize(*layers_->context, site, ResidualsOf(group), x));
  RETURN_IF_OPERATOR_FAILED(
      weights.attention_kind == AttentionKind::kKda
          ? layers_->kda->Forward(layer, weights.kda, x, group, out)
          : layers_->mla->Forward(layer, weights.mla, x, group, out));
  if (layer % spec().attn_res_block_size != 0) {
    AddToPrefix(group, out);
    return {};
  }
  // A block begins: the prefix becomes a snapshot and starts anew.
  float* prefix = step_.prefix.row(group.first_token);
  const size_t count = step_.prefix.width() * group.num_tokens;
  std::copy_n(prefix, count, step_.next_snapshot().row(group.first_token));
  std::copy_n(out, count, prefix);
  return {};
}

absl::Status CpuSpine::DenseMlp(int layer) {
  return ForEachGroup(layer, [&](const TokenGroup& group) -> OperatorStatus {
    float* x = layers_->input.row(0);
    float* out = layers_->output.row(0);
    RETURN_IF_OPERATOR_FAILED(NormalizeForMlp(layer, group, x));
    RETURN_IF_OPERATOR_FAILED(layers_->mlp->Forward(
        kDenseMlpNames, weights_.layers[layer].dense,
        {x, layers_->input.width(), group.num_tokens}, out));
    AddToPrefix(group, out);
    return {};
  });
}

OperatorStatus CpuSpine::NormalizeForMlp(int layer, const TokenGroup& group,
                                         float* x) {
  const LayerWeights& weights = weights_.layers[layer];
  const ResidualSite site = {weights.mlp_residual, weights.post_attention_norm,
                             "mlp_res", "post_attention_layernorm"};
  return MixAndNormalize(*layers_->context, site, ResidualsOf(group), x);
}

absl::StatusOr<RoutedTokens> CpuSpine::Route(int layer) {
  RETURN_IF_ERROR(ForEachGroup(layer, [&](const TokenGroup& group) {
    return RouteGroup(layer, group);
  }));
  const size_t tokens = step_.num_tokens();
  const size_t top_k = spec().num_experts_per_token;
  const size_t latent = spec().routed_expert_hidden_size;
  return RoutedTokens{.num_tokens = step_.num_tokens(),
                      .top_k = spec().num_experts_per_token,
                      .experts = {step_.mixture.experts.data(), tokens * top_k},
                      .weights = {step_.mixture.weights.data(), tokens * top_k},
                      .latent = {step_.mixture.latent.row(0), tokens * latent}};
}

OperatorStatus CpuSpine::RouteGroup(int layer, const TokenGroup& group) {
  const MoeWeights& moe = weights_.layers[layer].moe;
  const size_t first = group.first_token;
  const size_t top_k = spec().num_experts_per_token;
  float* x = step_.mixture.input.row(first);
  const Activations input = {x, step_.mixture.input.width(), group.num_tokens};
  RETURN_IF_OPERATOR_FAILED(NormalizeForMlp(layer, group, x));
  RETURN_IF_OPERATOR_FAILED(layers_->router->Forward(
      moe, input, step_.mixture.experts.data() + first * top_k,
      step_.mixture.weights.data() + first * top_k));
  return ProjectToLatent(*layers_->context, moe, input,
                         step_.mixture.latent.row(first));
}

absl::Status CpuSpine::SharedExperts(int layer) {
  return ForEachGroup(layer, [&](const TokenGroup& group) {
    const FloatRows& x = step_.mixture.input;
    return layers_->mlp->Forward(
        kSharedExpertNames, weights_.layers[layer].moe.shared,
        {x.row(group.first_token), x.width(), group.num_tokens},
        step_.mixture.shared.row(group.first_token));
  });
}

std::span<const int32_t> CpuSpine::PredictExperts(int layer) {
  if (!spec().is_moe(layer) || step_.num_tokens() > kTokenGroup) return {};
  return layers_->predictor->Predict(weights_.layers[layer], step_);
}

absl::Status CpuSpine::AddRoutedExperts(int layer,
                                        std::span<const int64_t> sums) {
  const size_t latent = spec().routed_expert_hidden_size;
  if (sums.size() != latent * step_.num_tokens()) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", layer, ": ", sums.size(), " routed sums for ",
                     step_.num_tokens(), " tokens of ", latent));
  }
  return ForEachGroup(layer, [&](const TokenGroup& group) {
    return AddRoutedGroup(
        layer, group,
        sums.subspan(latent * group.first_token, latent * group.num_tokens));
  });
}

// f = up_proj(RMSNorm(sums)) + shared; prefix = prefix + f.
OperatorStatus CpuSpine::AddRoutedGroup(int layer, const TokenGroup& group,
                                        std::span<const int64_t> sums) {
  float* out = layers_->output.row(0);
  RETURN_IF_OPERATOR_FAILED(
      ProjectFromLatent(*layers_->context, weights_.layers[layer].moe, sums,
                        step_.mixture.latent.row(group.first_token), out));
  const int hidden = spec().hidden_size;
  ForEachRow(*options_.threads, group.num_tokens, [&](int t) {
    float* row = layers_->output.row(t);
    options_.kernel->elementwise.add(
        row, step_.mixture.shared.row(group.first_token + t), hidden, row);
  });
  AddToPrefix(group, out);
  return {};
}

void CpuSpine::AddToPrefix(const TokenGroup& group, const float* addend) {
  const int hidden = spec().hidden_size;
  ForEachRow(*options_.threads, group.num_tokens, [&](int t) {
    float* row = step_.prefix.row(group.first_token + t);
    options_.kernel->elementwise.add(row, addend + size_t{1} * t * hidden,
                                     hidden, row);
  });
}

absl::StatusOr<std::span<const float>> CpuSpine::Logits() {
  if (!step_.in_flight()) return NoStep();
  if (weights_.stream != nullptr) weights_.stream->Finish();
  ScopedTimer timer(timings_.head);
  const std::span<const int> rows = step_.logits_rows();
  const size_t count = rows.size() * spec().vocab_size;
  if (logits_.size() < count) logits_.resize(count);
  const OperatorStatus status = layers_->head->Forward(
      step_.snapshots(), step_.prefix, rows, logits_.data());
  if (!status.ok()) return LocateError("head", status.row, status);
  step_.Finish();
  return std::span<const float>(logits_.data(), count);
}

SpineTimings CpuSpine::TakeTimings() {
  if (weights_.stream != nullptr) weights_.stream->TakeCounts(timings_);
  SpineTimings timings = std::exchange(timings_, {});
  timings.compute -= timings.attention;  // measured inside it
  return timings;
}

template <typename Body>
absl::Status CpuSpine::ForEachGroup(int layer, Body body) {
  if (!step_.in_flight()) return NoStep();
  ScopedTimer timer(timings_.compute);
  for (const TokenGroup& group : step_.groups()) {
    const OperatorStatus status = body(group);
    if (status.ok()) continue;
    return LocateError(absl::StrCat("layer ", layer),
                       group.first_token + status.row, status);
  }
  return absl::OkStatus();
}

absl::Status CpuSpine::LocateError(const std::string& where, int token,
                                   const OperatorStatus& error) const {
  const char* what = error.status == KernelStatus::kOverflow
                         ? "overflow"
                         : "inf or NaN in its input";
  const StepPosition at = step_.Locate(token);
  return absl::OutOfRangeError(
      absl::StrCat(where, " ", error.name, ": ", what, " at position ",
                   at.position, " of sequence ", at.sequence, " of the step"));
}

}  // namespace deltafin
