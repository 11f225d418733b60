#include "coordinator/engine/retained_states.h"

#include <algorithm>
#include <utility>

namespace deltafin {

bool RetainedStates::Before::operator()(std::span<const int32_t> a,
                                        std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

void RetainedStates::Insert(std::span<const int32_t> ids,
                            std::unique_ptr<SequenceState> state,
                            int64_t limit_bytes) {
  if (Touch(ids)) return;
  const int64_t bytes = BytesOf(state->bytes(), std::ssize(ids));
  if (bytes > limit_bytes) return;
  ShrinkTo(limit_bytes - bytes);
  if (states_.size() >= kMaxStates) EvictOldest();
  states_.emplace(std::vector<int32_t>(ids.begin(), ids.end()),
                  Retained{std::move(state), bytes, ++uses_});
  bytes_ += bytes;
}

const SequenceState* RetainedStates::FindLongestPrefix(
    std::span<const int32_t> ids) {
  const auto found = LongestPrefix(ids);
  if (found == states_.end()) return nullptr;
  found->second.last_use = ++uses_;
  return found->second.state.get();
}

// Every beginning of `ids` sorts before it or equals it. Where the nearest key
// at or before it is none, it shares `common` ids with it, and so no beginning
// longer than that can lie further ahead.
RetainedStates::Map::iterator RetainedStates::LongestPrefix(
    std::span<const int32_t> ids) {
  while (true) {
    auto nearest = states_.upper_bound(ids);
    if (nearest == states_.begin()) return states_.end();
    --nearest;
    const std::vector<int32_t>& key = nearest->first;
    const size_t common =
        std::mismatch(key.begin(), key.end(), ids.begin(), ids.end()).first -
        key.begin();
    if (common == key.size()) return nearest;
    ids = ids.first(common);
  }
}

bool RetainedStates::Touch(std::span<const int32_t> ids) {
  const auto found = states_.find(ids);
  if (found == states_.end()) return false;
  found->second.last_use = ++uses_;
  return true;
}

void RetainedStates::ShrinkTo(int64_t limit_bytes) {
  while (bytes_ > limit_bytes && EvictOldest()) {
  }
}

bool RetainedStates::EvictOldest() {
  const auto oldest = std::min_element(
      states_.begin(), states_.end(), [](const auto& a, const auto& b) {
        return a.second.last_use < b.second.last_use;
      });
  if (oldest == states_.end()) return false;
  bytes_ -= oldest->second.bytes;
  states_.erase(oldest);
  ++evictions_;
  return true;
}

}  // namespace deltafin
