// coordinator/engine/sampler.h
//
// Chooses the next token of one sequence from its logits (docs/numerics.md
// section 11). The choice depends on logits, options, position and the
// sequence's own ids alone, never on batch companions. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/engine/request.h"
#include "kernels/elementwise.h"

namespace deltafin {

// An option outside of its range.
struct SamplingFault {
  std::string_view option;  // the field's name: "top_p"
  std::string value;        // in as few digits as say which float it is
  std::string range;        // what it must be: "in (0, 1]"
};

// The first fault; nullopt when there is none.
std::optional<SamplingFault> FindSamplingFault(const SamplingOptions& options,
                                               int vocab_size);

// Errors: INVALID_ARGUMENT naming the option, its value and its range.
absl::Status ValidateSampling(const SamplingOptions& options, int vocab_size);

// Order of operations, each rounded to f32:
//   1. ids in prompt or output:   z = z > 0 ? z / repetition : z * repetition
//   2. ids in the output:         z = z - frequency * count, z = z - presence
//   3. bias:                      z = z + bias, in the order given
//   4. constraint: from here on only tokens that it allows are looked at
//   5. temperature 0: the largest z, the lower id of equal ones. Otherwise
//      z = z * (1.0f / temperature)
//   6. candidates in descending z (equal ones: lower id first): the first
//      top_k; then p_i = exp(z_i - z_0) / sum
//   7. top_p: the shortest prefix whose running sum reaches top_p
//   8. min_p: those with p_i >= min_p * p_0
//   9. u = f32(first Philox word) * 2^-32, key = seed, counter = (position,
//      choice); the first candidate whose running sum exceeds u * (sum of all)
// Sums run in candidate order, plain adds.
class Sampler {
 public:
  // `kernel` must outlive the sampler; `constraint` may be null. REQUIRES:
  // ValidateSampling(options).
  Sampler(const SamplingOptions& options, std::span<const int32_t> prompt_ids,
          const ElementwiseKernel& kernel,
          std::shared_ptr<TokenConstraint> constraint = nullptr);

  // Chooses the token that will stand at `position` of the sequence. logits:
  // [V]. Does not count it: see Accept. Errors: OUT_OF_RANGE naming the token
  // whose adjusted logit is inf or NaN, allowed or not; the constraint's, and
  // INTERNAL when it allows nothing or is for another vocabulary.
  absl::StatusOr<int32_t> Sample(std::span<const float> logits,
                                 int64_t position);

  // Counts an output token for the penalties and tells the constraint.
  void Accept(int32_t id);

 private:
  bool adjusts_logits() const;
  void AdjustLogits();
  absl::Status AskConstraint(size_t vocab_size, int64_t position);
  bool Allows(size_t id) const {
    return allowed_.empty() || (allowed_[id / 64] >> (id % 64) & 1) != 0;
  }
  int32_t LargestLogit(std::span<const float> logits) const;
  int32_t Draw(int64_t position);
  void CollectCandidates();
  void SortCandidates(size_t begin, size_t end);
  std::optional<size_t> CountKept(size_t sorted);
  float Uniform(int64_t position) const;

  SamplingOptions options_;
  const ElementwiseKernel& kernel_;
  const std::shared_ptr<TokenConstraint> constraint_;
  absl::flat_hash_set<int32_t> seen_ids_;  // prompt and output
  absl::flat_hash_map<int32_t, int> output_counts_;
  // Scratch of one call.
  std::span<const uint64_t> allowed_;  // the constraint's; empty: all
  std::vector<float> logits_;          // [V] adjusted
  std::vector<uint64_t> candidates_;   // sort keys, best first
  std::vector<float> probabilities_;   // of the candidates
};

}  // namespace deltafin
