// coordinator/engine/sequence_store.h
//
// Where the states of sequences come from and go to: a request starts from the
// longest retained state that its prompt extends, and leaves states behind for
// others. Belongs to the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "coordinator/engine/retained_states.h"
#include "spine_node/spine.h"

namespace deltafin {

// Totals since start, but for the two that say now.
struct ReuseStats {
  int64_t hits = 0;             // requests that started from a retained state
  int64_t misses = 0;           // that found none
  int64_t cached_tokens = 0;    // of prompts, not computed again
  int64_t evictions = 0;        // states let go for room
  int64_t retained_bytes = 0;   // now
  int64_t retained_states = 0;  // now
};

class SequenceStore {
 public:
  // `spine` must outlive this. capacity_bytes: of retained states; 0 keeps
  // none.
  SequenceStore(Spine& spine, int64_t capacity_bytes);

  // A state that can grow to max_tokens and holds the first num_tokens() of
  // prompt_ids, less than all: the last row of a prompt is always computed.
  // Retained states beyond room_bytes are let go before, and further ones where
  // memory is refused. Errors: the spine's.
  absl::StatusOr<std::unique_ptr<SequenceState>> Start(
      std::span<const int32_t> prompt_ids, int64_t max_tokens,
      int64_t room_bytes);
  // The same without looking for a retained state.
  absl::StatusOr<std::unique_ptr<SequenceState>> StartAnew(int64_t max_tokens,
                                                           int64_t room_bytes);

  // Retains a copy of `state`, which holds `ids`, where it fits in room_bytes
  // and the capacity.
  void RetainCopy(std::span<const int32_t> ids, const SequenceState& state,
                  int64_t room_bytes);
  // The same for a state that nobody needs any more.
  void Retain(std::span<const int32_t> ids,
              std::unique_ptr<SequenceState> state, int64_t room_bytes);

  ReuseStats stats() const;

 private:
  int64_t Limit(int64_t room_bytes) const;

  Spine& spine_;
  const int64_t capacity_bytes_;
  RetainedStates retained_;
  ReuseStats stats_;
};

}  // namespace deltafin
