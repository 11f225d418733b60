// coordinator/engine/retained_states.h
//
// States of sequences that have ended or forked, for requests that begin with
// the same ids. Bounded by bytes; the one that was not used for longest goes
// first. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "spine_node/spine_types.h"

namespace deltafin {

class RetainedStates {
 public:
  // More than this many are never kept, so that a search stays short.
  static constexpr size_t kMaxStates = 1024;

  // Keeps the state after `ids` within limit_bytes, letting go of older ones;
  // drops it where it does not fit alone. Of equal ids the older state stays
  // and counts as used. REQUIRES: state->num_tokens() == ids.size().
  void Insert(std::span<const int32_t> ids,
              std::unique_ptr<SequenceState> state, int64_t limit_bytes);
  // The state whose ids are the longest beginning of `ids`, or all of them;
  // null: none. Counts as a use. Valid until it is let go.
  const SequenceState* FindLongestPrefix(std::span<const int32_t> ids);
  // A state after exactly these ids is kept; counts as a use.
  bool Touch(std::span<const int32_t> ids);
  // Lets go of older states until limit_bytes suffice.
  void ShrinkTo(int64_t limit_bytes);
  // Lets go of the oldest; false when there is none.
  bool EvictOldest();

  // What Insert would count for a state of so many bytes and tokens.
  static int64_t BytesOf(int64_t state_bytes, int64_t num_tokens) {
    return state_bytes + num_tokens * int64_t{sizeof(int32_t)};
  }
  int64_t bytes() const { return bytes_; }
  size_t size() const { return states_.size(); }
  int64_t evictions() const { return evictions_; }

 private:
  struct Retained {
    std::unique_ptr<SequenceState> state;
    int64_t bytes = 0;
    uint64_t last_use = 0;
  };
  // Lexicographic; compares with spans without copying them.
  struct Before {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a,
                    std::span<const int32_t> b) const;
  };
  using Map = std::map<std::vector<int32_t>, Retained, Before>;

  Map::iterator LongestPrefix(std::span<const int32_t> ids);

  Map states_;
  int64_t bytes_ = 0;
  uint64_t uses_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace deltafin
