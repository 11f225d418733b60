// spine_node/cpu/step.h
//
// What a step in flight holds: its slices, its token groups, and the rows that
// belong to its tokens. The attention-residual snapshots live here and not in
// the sequences: they belong to the tokens in flight (docs/model.md section 3).
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/base/model_spec.h"
#include "spine_node/cpu/float_rows.h"
#include "spine_node/cpu/sequence_state.h"
#include "spine_node/cpu/token_group.h"
#include "spine_node/spine_types.h"

namespace deltafin {

// A token of the step, as errors name it.
struct StepPosition {
  int sequence = 0;  // index of its slice
  int64_t position = 0;
};

// What a mixture layer keeps for all tokens while its routed experts run.
struct MixtureRows {
  FloatRows input;               // [T, H] normalised, for the shared experts
  FloatRows shared;              // [T, H] their output
  FloatRows latent;              // [T, L]
  std::vector<int32_t> experts;  // [T, K]
  std::vector<float> weights;    // [T, K]
};

class Step {
 public:
  explicit Step(const ModelSpec& spec) : spec_(spec) {}

  // Bytes that Begin takes per token of the step.
  static int64_t TokenBytes(const ModelSpec& spec);

  // Checks the slices and starts a step over them. Memory of an earlier, larger
  // step is used again. Errors: FAILED_PRECONDITION when a step is in flight or
  // a sequence must be truncated first; INVALID_ARGUMENT naming slice and
  // reason; RESOURCE_EXHAUSTED. No step is then in flight.
  absl::Status Begin(std::span<const SequenceSlice> slices);
  // Ends the step; its sequences hold their tokens.
  void Finish();
  // Ends the step; its sequences stay unsettled.
  void Abandon();

  bool in_flight() const { return in_flight_; }
  int num_tokens() const { return num_tokens_; }
  std::span<const TokenGroup> groups() const { return groups_; }
  bool Holds(const CpuSequenceState* state) const;
  StepPosition Locate(int token) const;
  // Tokens whose logits are wanted, ascending.
  std::span<const int> logits_rows() const { return logits_rows_; }

  // Snapshots taken so far, oldest first.
  std::span<const FloatRows> snapshots() const {
    return {snapshots_.data(), static_cast<size_t>(num_snapshots_)};
  }
  // The one being taken.
  FloatRows& next_snapshot() { return snapshots_[num_snapshots_]; }
  void CommitSnapshot() { ++num_snapshots_; }

  FloatRows prefix;  // [T, H]
  MixtureRows mixture;

 private:
  absl::Status CheckSlice(const SequenceSlice& slice, size_t index) const;
  absl::Status Reserve(int num_tokens);
  void CutIntoGroups(std::span<const SequenceSlice> slices);

  struct Member {
    CpuSequenceState* state;
    int64_t num_tokens;
    int num_drafts;
  };

  const ModelSpec& spec_;
  std::vector<Member> members_;
  std::vector<TokenGroup> groups_;
  std::vector<int> logits_rows_;
  std::vector<FloatRows> snapshots_;
  int num_snapshots_ = 0;
  int num_tokens_ = 0;
  bool in_flight_ = false;
};

}  // namespace deltafin
