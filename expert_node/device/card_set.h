// expert_node/device/card_set.h
//
// The cards of a node: a layer's slices spread over them, each card a tier of
// its own in front of the RAM tier, their exact sums added here. A card that
// fails is used no more; its request is done again by the others, or by the
// processor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "expert_node/device/card_tier.h"
#include "expert_node/device/host_pins.h"
#include "expert_node/device/layer_on_cards.h"
#include "expert_node/device/missing_slices.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

struct CardSetOptions {
  std::vector<int> cards;  // by number; at least one
  CardOpener open;
  CardLimits limits;
  // Of each card; most_slots counts those of all cards together.
  CardTierOptions tier;
  HostPinner pinner;                         // of the RAM tier's memory
  size_t pinned_at_once = size_t{64} << 20;  // see HostPins
  // Beside the cards, what it has sooner than they would.
  bool processor_computes = true;
};

struct CardSetStats {
  CardTierStats tiers;        // of all cards since they were opened
  int num_cards = 0;          // that work
  int num_failed = 0;         // that were to work and do not
  uint64_t free_bytes = 0;    // of the cards that work
  uint64_t pinned_bytes = 0;  // of the RAM tier
};

class CardSet {
 public:
  // Opens the cards. One that cannot be used is told in the log, in one
  // sentence, and left out. `store`, the RAM tier, must outlive it, and no
  // other set reads from it.
  CardSet(const CardSetOptions& options, TieredStore& store);
  ~CardSet();

  // Some card works. Thread-safe.
  bool any() const;

  // One caller at a time.
  CardOutcome Run(const CardWork& work);
  // After Run has done its work well: writes the cards' sums [L] of a row of
  // the plan, without those of CardWork::run. Thread-safe for different rows.
  void MergeRow(int row, char* out) const;

  // What of the runs is on no card. Thread-safe.
  std::vector<ExpectedRun> Lacking(std::span<const ExpectedRun> runs) const;
  // Thread-safe.
  CardSetStats stats() const;
  // Blocks until nothing that was used waits to be pinned.
  void WaitUntilPinned() { pins_.WaitUntilIdle(); }

 private:
  void Drop(size_t card, const absl::Status& why);

  const ExpertShape shape_;
  const int max_rows_;
  TieredStore& store_;
  HostPins pins_;
  SliceTimes times_;
  const bool processor_computes_;
  mutable Mutex mutex_;  // of the list: its cards have their own
  std::vector<std::unique_ptr<CardTier>> tiers_ ABSL_GUARDED_BY(mutex_);
  CardTierStats dropped_ ABSL_GUARDED_BY(mutex_);  // of cards that failed
  int num_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the request that was done last.
  std::vector<const int64_t*> sums_;
};

}  // namespace deltafin
