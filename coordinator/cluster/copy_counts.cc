#include "coordinator/cluster/copy_counts.h"

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "coordinator/cluster/lane_counter.h"

namespace deltafin {
namespace {

struct Holders {
  int complete = 0;  // that hold everything
  std::vector<std::span<const uint64_t>> partial;
};

Holders FindHolders(const Placement& placement) {
  Holders holders;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    const Member& member = placement.member(slot);
    if (!IsInService(member)) continue;
    if (member.holdings == nullptr) {
      ++holders.complete;
    } else {
      holders.partial.push_back(member.holdings->words());
    }
  }
  return holders;
}

// Bits of word `w` that stand for pairs.
uint64_t PairsOf(int64_t w, int64_t num_pairs) {
  const int64_t left = num_pairs - 64 * w;
  return left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
}

}  // namespace

bool IsInService(const Member& member) {
  return member.state == MemberState::kServing ||
         member.state == MemberState::kDraining;
}

CopyCounts CountCopies(const Placement& placement, const ModelExtent& extent,
                       int wanted) {
  const Holders holders = FindHolders(placement);
  const int64_t num_pairs = extent.num_pairs();
  CopyCounts counts;
  if (holders.partial.empty()) {
    counts.least = holders.complete;
    counts.none = holders.complete == 0 ? num_pairs : 0;
    counts.scarce = holders.complete < wanted ? num_pairs : 0;
    return counts;
  }
  int least = LaneCounter::kMost;
  LaneCounter counter;
  for (int64_t w = 0; 64 * w < num_pairs; ++w) {
    counter.Clear();
    for (const auto& words : holders.partial) counter.Add(words[w]);
    const uint64_t pairs = PairsOf(w, num_pairs);
    least = std::min(least, counter.Least(pairs));
    if (holders.complete == 0) {
      counts.none += std::popcount(counter.Below(1) & pairs);
    }
    if (wanted > holders.complete) {
      counts.scarce +=
          std::popcount(counter.Below(wanted - holders.complete) & pairs);
    }
  }
  counts.least = holders.complete + least;
  return counts;
}

}  // namespace deltafin
