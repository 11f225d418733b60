#include "coordinator/engine/sequence_store.h"

#include <algorithm>
#include <utility>

namespace deltafin {

SequenceStore::SequenceStore(Spine& spine, int64_t capacity_bytes)
    : spine_(spine), capacity_bytes_(capacity_bytes) {}

absl::StatusOr<std::unique_ptr<SequenceState>> SequenceStore::Start(
    std::span<const int32_t> prompt_ids, int64_t max_tokens,
    int64_t room_bytes) {
  const auto reusable = prompt_ids.first(prompt_ids.size() - 1);
  retained_.FindLongestPrefix(reusable);  // so that it is let go last
  retained_.ShrinkTo(Limit(room_bytes));
  while (const SequenceState* state = retained_.FindLongestPrefix(reusable)) {
    auto copy = spine_.Fork(*state, max_tokens);
    if (copy.ok()) {
      ++stats_.hits;
      stats_.cached_tokens += (*copy)->num_tokens();
      return copy;
    }
    if (!absl::IsResourceExhausted(copy.status())) return copy;
    retained_.EvictOldest();
  }
  auto state = StartAnew(max_tokens, room_bytes);
  if (state.ok() && capacity_bytes_ > 0) ++stats_.misses;
  return state;
}

absl::StatusOr<std::unique_ptr<SequenceState>> SequenceStore::StartAnew(
    int64_t max_tokens, int64_t room_bytes) {
  retained_.ShrinkTo(Limit(room_bytes));
  auto state = spine_.NewSequence(max_tokens);
  while (absl::IsResourceExhausted(state.status()) && retained_.EvictOldest()) {
    state = spine_.NewSequence(max_tokens);
  }
  return state;
}

void SequenceStore::RetainCopy(std::span<const int32_t> ids,
                               const SequenceState& state, int64_t room_bytes) {
  if (capacity_bytes_ == 0 || retained_.Touch(ids)) return;
  const int64_t limit = Limit(room_bytes);
  const int64_t bytes =
      RetainedStates::BytesOf(state.bytes(), state.num_tokens());
  if (bytes > limit) return;
  retained_.ShrinkTo(limit - bytes);
  auto copy = spine_.Fork(state, state.num_tokens());
  if (copy.ok()) retained_.Insert(ids, *std::move(copy), limit);
}

void SequenceStore::Retain(std::span<const int32_t> ids,
                           std::unique_ptr<SequenceState> state,
                           int64_t room_bytes) {
  if (capacity_bytes_ == 0) return;
  retained_.Insert(ids, std::move(state), Limit(room_bytes));
}

ReuseStats SequenceStore::stats() const {
  ReuseStats stats = stats_;
  stats.evictions = retained_.evictions();
  stats.retained_bytes = retained_.bytes();
  stats.retained_states = static_cast<int64_t>(retained_.size());
  return stats;
}

int64_t SequenceStore::Limit(int64_t room_bytes) const {
  return std::max<int64_t>(std::min(capacity_bytes_, room_bytes), 0);
}

}  // namespace deltafin
