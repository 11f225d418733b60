// coordinator/engine/suffix_drafter.h
//
// Guesses what follows in one sequence: what followed where its last ids stood
// before. Costs a bounded time per token and no model. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace deltafin {

struct Draft {
  std::vector<int32_t> ids;  // most probable continuation; empty: none known
  int match_length = 0;      // ids before it that stood there before, capped
};

class SuffixDrafter {
 public:
  static constexpr int kMinMatch = 2;
  static constexpr int kMaxMatch = 32;
  // Earlier places that are compared, latest first.
  static constexpr int kMaxPlaces = 32;

  // The continuation, at most max_ids, of the longest match of the end of `ids`
  // further ahead in them; the latest of equally long ones. A match that
  // reaches into its own continuation is taken to go on in the same way.
  // REQUIRES: `ids` begin with those of the calls before.
  Draft Find(std::span<const int32_t> ids, int max_ids);

 private:
  void Index(std::span<const int32_t> ids);

  // By the two ids before it: the last indexed place, and for each place the
  // one before with the same two. Place p: between ids[p - 1] and ids[p].
  absl::flat_hash_map<uint64_t, int32_t> last_place_;
  std::vector<int32_t> earlier_place_;  // 0: none
};

}  // namespace deltafin
