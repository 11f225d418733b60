#include "expert_node/copy_pace.h"

#include <algorithm>
#include <cmath>

namespace deltafin {
namespace {

constexpr absl::Duration kHalfLife = absl::Seconds(30);
// A longer pause than this is no part of copying.
constexpr absl::Duration kLongestPause = absl::Seconds(5);

}  // namespace

absl::Duration CopyPace::TimeOf(uint64_t bytes) const {
  if (budget_ == 0) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(bytes) /
                       static_cast<double>(budget_));
}

void CopyPace::Begin(uint64_t bytes, absl::Duration now) {
  next_ = std::max(next_, now) + TimeOf(bytes);
}

void CopyPace::Copied(uint64_t bytes, absl::Duration begun,
                      absl::Duration ended) {
  const bool follows = seconds_ > 0 && begun - last_ <= kLongestPause;
  const absl::Duration passed = ended - (follows ? last_ : begun);
  last_ = ended;
  const double kept = std::exp2(-absl::FDivDuration(passed, kHalfLife));
  bytes_ = bytes_ * kept + static_cast<double>(bytes);
  seconds_ = seconds_ * kept + absl::ToDoubleSeconds(passed);
}

double CopyPace::rate() const { return seconds_ > 0 ? bytes_ / seconds_ : 0; }

}  // namespace deltafin
