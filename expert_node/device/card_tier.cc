#include "expert_node/device/card_tier.h"

#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<CardTier>> CardTier::Create(
    std::unique_ptr<ExpertCard> card, const CardLimits& limits,
    const CardTierOptions& options) {
  const ExpertShape& shape = limits.shape;
  ASSIGN_OR_RETURN(
      CardSlots slots,
      TakeCardSlots(*card, ExpertCache::SlotBytes(shape.slice_offset(1)),
                    shape.num_slices(), options.most_slots, options.memory));
  return std::unique_ptr<CardTier>(
      new CardTier(std::move(card), limits, options, std::move(slots)));
}

CardTier::CardTier(std::unique_ptr<ExpertCard> card, const CardLimits& limits,
                   const CardTierOptions& options, CardSlots slots)
    : card_(std::move(card)),
      shape_(limits.shape),
      shortfall_(std::move(slots.shortfall)),
      cache_(ExpertCache::Over(
          slots.slots, ExpertCache::SlotBytes(limits.shape.slice_offset(1)),
          options.heat_half_life)),
      num_stages_(limits.num_stages) {}

bool CardTier::Contains(const SliceKey& key) const {
  MutexLock lock(mutex_);
  return cache_->Contains(key);
}

CardTierStats CardTier::stats() const {
  MutexLock lock(mutex_);
  CardTierStats stats = stats_;
  stats.evictions = cache_->evictions();
  stats.resident_bytes = cache_->resident_slices() * cache_->slot_bytes();
  stats.capacity_bytes = cache_->num_slots() * cache_->slot_bytes();
  return stats;
}

}  // namespace deltafin
