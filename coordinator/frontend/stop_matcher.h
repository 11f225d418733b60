// coordinator/frontend/stop_matcher.h
//
// Ends text before the first stop string, wherever the pieces it comes in are
// cut. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 4096;  // of one

class StopMatcher {
 public:
  // Errors: INVALID_ARGUMENT naming the string that is empty, too long, not
  // UTF-8 or one too many.
  static absl::StatusOr<StopMatcher> Create(std::vector<std::string> stops);

  // Returns the text that is surely before any stop string; a possible
  // beginning of one is held back. The first stop string to be complete wins,
  // of several complete at once the longest. After a match returns nothing.
  std::string Add(std::string_view text);

  // At the end: what was held back, unless a stop string matched.
  std::string Flush();

  bool matched() const { return matched_; }

 private:
  // Knuth-Morris-Pratt matcher of one stop string.
  struct Pattern {
    std::string text;
    std::vector<size_t> failure;  // longest border of each prefix
    size_t state = 0;             // bytes matched
  };

  StopMatcher() = default;
  // Bytes of pending_ that some stop string may begin with; sets matched_.
  size_t Advance(char byte);

  std::vector<Pattern> patterns_;
  std::string pending_;
  bool matched_ = false;
};

}  // namespace deltafin
