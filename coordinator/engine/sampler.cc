#include "coordinator/engine/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/status_macros.h"
#include "coordinator/engine/philox.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// A larger 1 / temperature than 10^4 could only overflow logits.
constexpr float kMinTemperature = 1e-4f;
constexpr float kMaxTemperature = 100;
constexpr float kMaxAdditivePenalty = 2;
constexpr float kMaxRepetitionPenalty = 100;
constexpr float kMaxLogitBias = 100;

// Candidates that are put in order at first, and by how much more each time.
constexpr size_t kFirstSorted = 1024;
constexpr size_t kSortedGrowth = 4;

bool Within(float value, float low, float high) {
  return value >= low && value <= high;  // false for NaN
}

std::optional<SamplingFault> FindPenaltyFault(const SamplingOptions& options) {
  if (!Within(options.presence_penalty, -kMaxAdditivePenalty,
              kMaxAdditivePenalty)) {
    return SamplingFault{"presence_penalty",
                         fmt::format("{}", options.presence_penalty),
                         "in [-2, 2]"};
  }
  if (!Within(options.frequency_penalty, -kMaxAdditivePenalty,
              kMaxAdditivePenalty)) {
    return SamplingFault{"frequency_penalty",
                         fmt::format("{}", options.frequency_penalty),
                         "in [-2, 2]"};
  }
  if (!Within(options.repetition_penalty, 1 / kMaxRepetitionPenalty,
              kMaxRepetitionPenalty)) {
    return SamplingFault{"repetition_penalty",
                         fmt::format("{}", options.repetition_penalty),
                         "in [0.01, 100]"};
  }
  return std::nullopt;
}

std::optional<SamplingFault> FindBiasFault(const SamplingOptions& options,
                                           int vocab_size) {
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || id >= vocab_size) {
      return SamplingFault{"logit_bias id", fmt::format("{}", id),
                           fmt::format("in [0, {})", vocab_size)};
    }
    if (!Within(bias, -kMaxLogitBias, kMaxLogitBias)) {
      return SamplingFault{"logit_bias", fmt::format("{}", bias),
                           "in [-100, 100]"};
    }
  }
  return std::nullopt;
}

// Ascending keys are candidates in order: descending logit, then ascending id.
// The float's bits are mapped to an unsigned integer of the same order; adding
// zero first makes -0 equal to 0.
uint64_t CandidateKey(float logit, uint32_t id) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  const uint32_t ascending =
      (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{~ascending} << 32 | id;
}

int32_t CandidateId(uint64_t key) { return static_cast<int32_t>(key); }

absl::Status CheckFinite(std::span<const float> logits, int64_t position) {
  for (size_t id = 0; id < logits.size(); ++id) {
    if (!std::isfinite(logits[id])) {
      return absl::OutOfRangeError(
          fmt::format("sampler: the logit of token {} for position {} is {}",
                      id, position, logits[id]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<SamplingFault> FindSamplingFault(const SamplingOptions& options,
                                               int vocab_size) {
  if (options.temperature != 0 &&
      !Within(options.temperature, kMinTemperature, kMaxTemperature)) {
    return SamplingFault{"temperature", fmt::format("{}", options.temperature),
                         "0 (greedy) or in [0.0001, 100]"};
  }
  if (options.top_k < 0) {
    return SamplingFault{"top_k", fmt::format("{}", options.top_k),
                         "0 (off) or positive"};
  }
  if (!Within(options.top_p, 0, 1) || options.top_p == 0) {
    return SamplingFault{"top_p", fmt::format("{}", options.top_p),
                         "in (0, 1]"};
  }
  if (!Within(options.min_p, 0, 1)) {
    return SamplingFault{"min_p", fmt::format("{}", options.min_p),
                         "in [0, 1]"};
  }
  if (auto fault = FindPenaltyFault(options)) return fault;
  return FindBiasFault(options, vocab_size);
}

absl::Status ValidateSampling(const SamplingOptions& options, int vocab_size) {
  const auto fault = FindSamplingFault(options, vocab_size);
  if (!fault.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("sampling option {} is {}; it must be {}", fault->option,
                  fault->value, fault->range));
}

Sampler::Sampler(const SamplingOptions& options,
                 std::span<const int32_t> prompt_ids,
                 const ElementwiseKernel& kernel,
                 std::shared_ptr<TokenConstraint> constraint)
    : options_(options), kernel_(kernel), constraint_(std::move(constraint)) {
  if (options.repetition_penalty != 1) {
    seen_ids_.insert(prompt_ids.begin(), prompt_ids.end());
  }
}

void Sampler::Accept(int32_t id) {
  seen_ids_.insert(id);
  ++output_counts_[id];
  if (constraint_ != nullptr) constraint_->Accept(id);
}

absl::StatusOr<int32_t> Sampler::Sample(std::span<const float> logits,
                                        int64_t position) {
  RETURN_IF_ERROR(AskConstraint(logits.size(), position));
  if (options_.temperature == 0 && !adjusts_logits()) {
    RETURN_IF_ERROR(CheckFinite(logits, position));
    return LargestLogit(logits);
  }
  logits_.assign(logits.begin(), logits.end());
  AdjustLogits();
  RETURN_IF_ERROR(CheckFinite(logits_, position));
  if (options_.temperature == 0) return LargestLogit(logits_);
  return Draw(position);
}

absl::Status Sampler::AskConstraint(size_t vocab_size, int64_t position) {
  if (constraint_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(allowed_, constraint_->Allowed());
  if (allowed_.size() * 64 < vocab_size) {
    return absl::InternalError(
        fmt::format("the constraint tells of {} tokens, the vocabulary has {}",
                    allowed_.size() * 64, vocab_size));
  }
  for (size_t id = 0; id < vocab_size; ++id) {
    if (Allows(id)) return absl::OkStatus();
  }
  return absl::InternalError(
      fmt::format("the constraint allows no token at position {}", position));
}

int32_t Sampler::LargestLogit(std::span<const float> logits) const {
  size_t best = 0;
  while (!Allows(best)) ++best;
  for (size_t id = best + 1; id < logits.size(); ++id) {
    if (logits[id] > logits[best] && Allows(id)) best = id;
  }
  return static_cast<int32_t>(best);
}

bool Sampler::adjusts_logits() const {
  return options_.repetition_penalty != 1 || options_.presence_penalty != 0 ||
         options_.frequency_penalty != 0 || !options_.logit_bias.empty();
}

void Sampler::AdjustLogits() {
  if (options_.repetition_penalty != 1) {
    for (const int32_t id : seen_ids_) {
      float& z = logits_[id];
      z = z > 0 ? z / options_.repetition_penalty
                : z * options_.repetition_penalty;
    }
  }
  for (const auto& [id, count] : output_counts_) {
    float& z = logits_[id];
    z = z - options_.frequency_penalty * static_cast<float>(count);
    z = z - options_.presence_penalty;
  }
  for (const auto& [id, bias] : options_.logit_bias) logits_[id] += bias;
  if (options_.temperature == 0) return;
  const float inverse = 1.0f / options_.temperature;
  for (float& z : logits_) z = z * inverse;
}

// Puts candidates in order only as far as they can matter: of a large
// vocabulary most are too improbable to change a sum.
int32_t Sampler::Draw(int64_t position) {
  CollectCandidates();
  size_t sorted = 0;
  std::optional<size_t> kept;
  while (!kept.has_value()) {
    const size_t begin = std::exchange(
        sorted, std::min(candidates_.size(),
                         std::max(kFirstSorted, sorted * kSortedGrowth)));
    SortCandidates(begin, sorted);
    kept = CountKept(sorted);
  }
  // Those that are kept beyond are silent: the sums end as they are here.
  const size_t summed = std::min(*kept, sorted);
  float total = 0;
  for (size_t i = 0; i < summed; ++i) total += probabilities_[i];
  const float target = Uniform(position) * total;
  float sum = 0;
  for (size_t i = 0; i < summed; ++i) {
    sum += probabilities_[i];
    if (sum > target) return CandidateId(candidates_[i]);
  }
  return CandidateId(*std::max_element(candidates_.begin() + summed - 1,
                                       candidates_.begin() + *kept));
}

void Sampler::CollectCandidates() {
  candidates_.clear();
  for (size_t id = 0; id < logits_.size(); ++id) {
    if (!Allows(id)) continue;
    candidates_.push_back(CandidateKey(logits_[id], static_cast<uint32_t>(id)));
  }
  const size_t top_k = static_cast<size_t>(options_.top_k);
  if (top_k == 0 || top_k >= candidates_.size()) return;
  std::nth_element(candidates_.begin(), candidates_.begin() + top_k,
                   candidates_.end());
  candidates_.resize(top_k);
}

// Brings those that belong to [begin, end) there, in order. REQUIRES: those
// before are in order.
void Sampler::SortCandidates(size_t begin, size_t end) {
  if (end < candidates_.size()) {
    std::nth_element(candidates_.begin() + begin, candidates_.begin() + end,
                     candidates_.end());
  }
  std::sort(candidates_.begin() + begin, candidates_.begin() + end);
}

// How many candidates top_p and min_p leave; sets the probabilities of the
// first `sorted`. nullopt: those behind may change a sum or the number, so that
// more have to be in order.
std::optional<size_t> Sampler::CountKept(size_t sorted) {
  const float largest = logits_[CandidateId(candidates_[0])];
  probabilities_.resize(sorted);
  for (size_t i = 0; i < sorted; ++i) {
    probabilities_[i] = logits_[CandidateId(candidates_[i])] - largest;
  }
  kernel_.exp(probabilities_.data(), static_cast<int>(sorted),
              probabilities_.data());
  float total = 0;
  for (const float p : probabilities_) total += p;
  // No candidate behind reaches this: exp's error is far below it.
  const auto bound_behind = [&] {
    return sorted == candidates_.size() ? 0.0f : 1.001f * probabilities_.back();
  };
  if (total + bound_behind() != total) return std::nullopt;
  for (float& p : probabilities_) p = p / total;

  size_t kept = 0;
  float sum = 0;
  while (kept < sorted && (options_.top_p == 1 || sum < options_.top_p)) {
    sum += probabilities_[kept++];
  }
  const float least = options_.min_p * probabilities_[0];
  const bool is_cut = options_.top_p < 1 && sum >= options_.top_p;
  if (!is_cut && sorted < candidates_.size()) {
    if (sum + bound_behind() != sum) return std::nullopt;
    if (least == 0) return candidates_.size();
    if (bound_behind() >= least) return std::nullopt;
  }
  while (probabilities_[kept - 1] < least) --kept;
  return kept;
}

float Sampler::Uniform(int64_t position) const {
  const uint64_t at = static_cast<uint64_t>(position);
  const auto words =
      Philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                  options_.choice, 0},
                 {static_cast<uint32_t>(options_.seed),
                  static_cast<uint32_t>(options_.seed >> 32)});
  return static_cast<float>(words[0]) * 0x1p-32f;
}

}  // namespace deltafin
