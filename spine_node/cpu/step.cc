#include "spine_node/cpu/step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "spine_node/cpu/layer_context.h"

namespace deltafin {

int64_t Step::TokenBytes(const ModelSpec& spec) {
  const int64_t rows = 3 + spec.num_snapshots();
  const int64_t routed = spec.num_experts_per_token;
  return sizeof(float) * (rows * spec.hidden_size +
                          spec.routed_expert_hidden_size + routed) +
         sizeof(int32_t) * routed;
}

absl::Status Step::Begin(std::span<const SequenceSlice> slices) {
  if (in_flight_) {
    return absl::FailedPreconditionError("a step is already in flight");
  }
  if (slices.empty()) {
    return absl::InvalidArgumentError("a step needs at least one sequence");
  }
  int64_t num_tokens = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    RETURN_IF_ERROR(CheckSlice(slices[i], i));
    for (size_t j = 0; j < i; ++j) {
      if (slices[j].state != slices[i].state) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("slices ", j, " and ", i, " are of one sequence"));
    }
    num_tokens += slices[i].ids.size();
  }
  RETURN_IF_ERROR(Reserve(static_cast<int>(num_tokens)));
  for (const SequenceSlice& slice : slices) {
    if (slice.num_drafts == 0) continue;
    RETURN_IF_ERROR(
        static_cast<CpuSequenceState*>(slice.state)->ReserveDrafts());
  }
  num_tokens_ = static_cast<int>(num_tokens);
  num_snapshots_ = 0;
  CutIntoGroups(slices);
  in_flight_ = true;
  return absl::OkStatus();
}

absl::Status Step::CheckSlice(const SequenceSlice& slice, size_t index) const {
  const auto* state = dynamic_cast<const CpuSequenceState*>(slice.state);
  if (state == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slice ", index, ": its sequence was not made by this spine"));
  }
  if (!state->settled()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "slice ", index,
        ": its sequence was in a step that failed; truncate it first"));
  }
  const int64_t count = static_cast<int64_t>(slice.ids.size());
  if (count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice ", index, ": no token ids"));
  }
  if (slice.num_drafts < 0 || slice.num_drafts >= count ||
      slice.num_drafts > kMaxDrafts) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice ", index, ": ", slice.num_drafts, " drafts of ",
                     count, " ids; at most ", kMaxDrafts, ", not all"));
  }
  if (state->num_tokens() + count > state->max_tokens()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "slice ", index, ": ", state->num_tokens(), " + ", count,
        " tokens exceed the sequence's limit of ", state->max_tokens()));
  }
  for (const int32_t id : slice.ids) {
    if (id >= 0 && id < spec_.vocab_size) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("slice ", index, ": token id ", id, " is not in 0..",
                     spec_.vocab_size - 1));
  }
  return absl::OkStatus();
}

absl::Status Step::Reserve(int num_tokens) {
  if (prefix.rows() >= static_cast<size_t>(num_tokens)) return absl::OkStatus();
  const auto allocate = [num_tokens](FloatRows& rows,
                                     size_t width) -> absl::Status {
    rows = FloatRows();
    ASSIGN_OR_RETURN(rows, FloatRows::Allocate(num_tokens, width));
    return absl::OkStatus();
  };
  const size_t hidden = spec_.hidden_size;
  snapshots_.resize(spec_.num_snapshots());
  for (FloatRows& rows : snapshots_) RETURN_IF_ERROR(allocate(rows, hidden));
  RETURN_IF_ERROR(allocate(mixture.input, hidden));
  RETURN_IF_ERROR(allocate(mixture.shared, hidden));
  RETURN_IF_ERROR(allocate(mixture.latent, spec_.routed_expert_hidden_size));
  mixture.experts.resize(size_t{1} * num_tokens * spec_.num_experts_per_token);
  mixture.weights.resize(mixture.experts.size());
  // Last: its size says what is reserved.
  return allocate(prefix, hidden);
}

void Step::CutIntoGroups(std::span<const SequenceSlice> slices) {
  members_.clear();
  groups_.clear();
  logits_rows_.clear();
  int token = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    auto* state = static_cast<CpuSequenceState*>(slices[i].state);
    const int count = static_cast<int>(slices[i].ids.size());
    state->BeginStep();
    members_.push_back({state, count, slices[i].num_drafts});
    const int first_draft = count - slices[i].num_drafts;
    for (int done = 0; done < count;) {
      if (token % kTokenGroup == 0) groups_.push_back({.first_token = token});
      TokenGroup& group = groups_.back();
      const int taken = std::min(count - done, kTokenGroup - group.num_tokens);
      group.runs.push_back(
          {.state = state,
           .sequence = static_cast<int>(i),
           .first_row = group.num_tokens,
           .num_tokens = taken,
           .position = state->num_tokens() + done,
           .num_drafts = std::clamp(done + taken - first_draft, 0, taken),
           .drafts_before = std::max(done - first_draft, 0),
           .num_replayed = done == 0 ? state->num_drafts() : 0});
      group.num_tokens += taken;
      done += taken;
      token += taken;
    }
    const int wanted = slices[i].logits == LogitsRows::kAll    ? count
                       : slices[i].logits == LogitsRows::kLast ? 1
                                                               : 0;
    for (int row = token - wanted; row < token; ++row) {
      logits_rows_.push_back(row);
    }
  }
}

bool Step::Holds(const CpuSequenceState* state) const {
  return in_flight_ &&
         std::any_of(members_.begin(), members_.end(),
                     [=](const Member& m) { return m.state == state; });
}

StepPosition Step::Locate(int token) const {
  for (const TokenGroup& group : groups_) {
    for (const TokenRun& run : group.runs) {
      const int offset = token - group.first_token - run.first_row;
      if (offset >= 0 && offset < run.num_tokens) {
        return {run.sequence, run.position + offset};
      }
    }
  }
  return {};
}

void Step::Finish() {
  for (const Member& member : members_) {
    member.state->FinishStep(member.num_tokens, member.num_drafts);
  }
  in_flight_ = false;
}

void Step::Abandon() { in_flight_ = false; }

}  // namespace deltafin
