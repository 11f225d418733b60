#include "coordinator/engine/stall_watch.h"

#include <algorithm>

namespace deltafin {
namespace {

constexpr double kTimes = 10;
// And no less than a slow disk takes for what may have to be read: 1.4 MB for a
// unit of a K3 expert, at 280 MB/s, or at 70 MB/s where nothing is known yet.
constexpr absl::Duration kSlowUnit = absl::Milliseconds(5);
constexpr absl::Duration kUnknownUnit = absl::Milliseconds(20);

}  // namespace

void StallWatch::Begin(int num_nodes, absl::Time now) {
  last_heard_.assign(num_nodes, now);
}

bool StallWatch::IsStalled(int node, std::span<const PlannedPart> parts,
                           const CostModel& costs, absl::Time now) const {
  double units = 0;
  for (const PlannedPart& part : parts) {
    if (part.state == PartState::kOpen) units += part.units;
  }
  const bool known = costs.knows(node);
  absl::Duration longest =
      std::max(at_least_, units * (known ? kSlowUnit : kUnknownUnit));
  if (known) longest = std::max(longest, kTimes * costs.Expected(node, units));
  return now - last_heard_[node] > longest;
}

}  // namespace deltafin
