#include "expert_node/storage/memory_governor.h"

#include <algorithm>
#include <utility>

#include "common/base/log.h"

namespace deltafin {

uint64_t MemoryReserveOf(uint64_t tier_bytes) {
  return std::min(tier_bytes / 8, uint64_t{128} << 20);
}

MemoryGovernor::MemoryGovernor(TieredStore& tier, uint64_t reserve_bytes,
                               Reader reader, absl::Duration interval)
    : tier_(tier),
      interval_(interval),
      reader_(std::move(reader)),
      policy_({tier.max_capacity_bytes(), tier.shape().payload_bytes(),
               reserve_bytes}),
      thread_("memory", interval, [this] { Tick(); }) {}

// The capacity is set again while it is not full: what was leased when it
// shrank may have been released.
void MemoryGovernor::Tick() {
  const absl::StatusOr<MemoryReading> reading = reader_();
  if (!reading.ok()) return;
  const uint64_t full = tier_.max_capacity_bytes();
  const uint64_t wanted =
      policy_.Next(*reading, tier_.stats().resident_bytes, interval_);
  if (wanted == full && was_full_) return;
  tier_.SetCapacity(wanted);
  const bool is_full = wanted == full;
  if (std::exchange(was_full_, is_full) == is_full) return;
  if (is_full) {
    spdlog::info("memory is there again: the expert tier has its {}",
                 FormatByteSize(full));
  } else {
    spdlog::warn("memory is short: the expert tier shrinks from {} to {}",
                 FormatByteSize(full), FormatByteSize(wanted));
  }
}

}  // namespace deltafin
