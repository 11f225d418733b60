// expert_node/device/card_tier.h
//
// Slices in a card's memory, in front of the RAM tier, with books as those of
// the RAM tier (first out is what was used least of late). What a layer does
// with it is in layer_on_card.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/device/card_memory.h"
#include "expert_node/device/expert_card.h"
#include "expert_node/storage/expert_cache.h"

namespace deltafin {

struct CardTierOptions {
  CardMemoryOptions memory;
  size_t most_slots = 0;  // slices of the model that may come to this card
  double heat_half_life = 1000;  // see TieredStoreOptions
};

struct CardTierStats {
  uint64_t hits = 0;      // slices wanted that were in the card's memory
  uint64_t misses = 0;    // that were not
  uint64_t computed = 0;  // misses that the processor computed instead
  uint64_t copied_bytes = 0;
  uint64_t evictions = 0;
  uint64_t resident_bytes = 0;
  uint64_t capacity_bytes = 0;
};

// Thread-safe but for what LayerOnCard does: one of them at a time.
class CardTier {
 public:
  // Takes the card's memory: slots for at least one expert. Errors: UNAVAILABLE
  // in one sentence that names the card.
  static absl::StatusOr<std::unique_ptr<CardTier>> Create(
      std::unique_ptr<ExpertCard> card, const CardLimits& limits,
      const CardTierOptions& options);

  const std::string& name() const { return card_->name(); }
  absl::StatusOr<uint64_t> FreeBytes() const { return card_->FreeBytes(); }
  // See CardSlots::shortfall.
  const std::string& shortfall() const { return shortfall_; }
  bool Contains(const SliceKey& key) const;
  CardTierStats stats() const;

 private:
  friend class LayerOnCard;

  CardTier(std::unique_ptr<ExpertCard> card, const CardLimits& limits,
           const CardTierOptions& options, CardSlots slots);

  const std::unique_ptr<ExpertCard> card_;
  const ExpertShape shape_;
  const std::string shortfall_;
  mutable Mutex mutex_;
  const std::unique_ptr<ExpertCache> cache_ ABSL_PT_GUARDED_BY(mutex_);
  CardTierStats stats_ ABSL_GUARDED_BY(mutex_);
  const int num_stages_;
  int next_stage_ = 0;  // of LayerOnCard
};

}  // namespace deltafin
