#include "coordinator/engine/suffix_drafter.h"

#include <algorithm>

namespace deltafin {
namespace {

uint64_t KeyBefore(std::span<const int32_t> ids, size_t place) {
  return uint64_t{static_cast<uint32_t>(ids[place - 2])} << 32 |
         static_cast<uint32_t>(ids[place - 1]);
}

int MatchLength(std::span<const int32_t> ids, size_t place) {
  const size_t most = std::min<size_t>(place, size_t{SuffixDrafter::kMaxMatch});
  size_t length = 0;
  while (length < most &&
         ids[place - 1 - length] == ids[ids.size() - 1 - length]) {
    ++length;
  }
  return static_cast<int>(length);
}

}  // namespace

Draft SuffixDrafter::Find(std::span<const int32_t> ids, int max_ids) {
  Index(ids);
  Draft draft;
  if (ids.size() < kMinMatch || max_ids < 1) return draft;
  size_t best = 0;
  int32_t place = earlier_place_[ids.size()];
  for (int i = 0; i < kMaxPlaces && place != 0; ++i) {
    const int length = MatchLength(ids, place);
    if (length > draft.match_length) {
      draft.match_length = length;
      best = place;
    }
    place = earlier_place_[place];
  }
  if (best == 0) return draft;
  const size_t period = ids.size() - best;
  for (size_t i = 0; i < static_cast<size_t>(max_ids); ++i) {
    draft.ids.push_back(i < period ? ids[best + i] : draft.ids[i - period]);
  }
  return draft;
}

void SuffixDrafter::Index(std::span<const int32_t> ids) {
  size_t place = std::max<size_t>(earlier_place_.size(), kMinMatch);
  earlier_place_.resize(ids.size() + 1, 0);
  for (; place <= ids.size(); ++place) {
    int32_t& last = last_place_[KeyBefore(ids, place)];
    earlier_place_[place] = last;
    last = static_cast<int32_t>(place);
  }
}

}  // namespace deltafin
