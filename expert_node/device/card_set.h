// expert_node/device/card_set.h
//
// The cards of a node: a layer's slices spread over them, each card a tier of
// its own in front of the RAM tier, their exact sums added here. A card that
// fails is used no more; its request is done again by the others, or by the
// processor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "expert_node/device/card_tier.h"
#include "expert_node/device/layer_on_card.h"
#include "expert_node/merged_work.h"
#include "expert_node/storage/tiered_store.h"
#include "expert_node/work_plan.h"

namespace deltafin {

struct CardSetOptions {
  std::vector<int> cards;  // by number; at least one
  CardOpener open;
  CardLimits limits;
  // Of each card; most_slots counts those of all cards together.
  CardTierOptions tier;
};

struct CardSetStats {
  CardTierStats tiers;      // of all cards since they were opened
  int num_cards = 0;        // that work
  int num_failed = 0;       // that were to work and do not
  uint64_t free_bytes = 0;  // of the cards that work
};

// A layer to compute. All must outlive the call.
struct CardWork {
  const MergedWork& work;
  const WorkPlan& plan;
  TieredStore& store;
  ThreadPool& threads;
  const std::atomic<bool>& cancelled;
};

struct CardOutcome {
  // The cards did what could be done. False: the processor is to do the
  // request: no card is left, or it has more tokens than the cards were opened
  // for, or an error of the computation, which is for the processor to name.
  bool done = false;
  // Of what was done. CANCELLED, or the store's: there are no sums.
  absl::Status status;
  int hits = 0;    // slices on a card or in RAM
  int misses = 0;  // that had to be read
  uint64_t bytes_read = 0;
  absl::Duration waited;  // for bytes, all threads together
};

class CardSet {
 public:
  // Opens the cards. One that cannot be used is told in the log, in one
  // sentence, and left out.
  explicit CardSet(const CardSetOptions& options);
  ~CardSet();

  // Some card works. Thread-safe.
  bool any() const;

  // One caller at a time.
  CardOutcome Run(const CardWork& work);
  // After Run has done its work well: writes the sums [L] of a row of the plan.
  // Thread-safe for different rows.
  void MergeRow(int row, char* out) const;

  // What of the runs is on no card. Thread-safe.
  std::vector<ExpectedRun> Lacking(std::span<const ExpectedRun> runs) const;
  // Thread-safe.
  CardSetStats stats() const;

 private:
  struct Attempt;

  CardOutcome Try(const CardWork& work, Attempt& attempt);
  void AddMisses(const CardWork& work, SliceLease& lease, Attempt& attempt);
  CardOutcome FinishAll(Attempt& attempt);
  void Drop(size_t card, const absl::Status& why);

  const ExpertShape shape_;
  const int max_rows_;
  mutable Mutex mutex_;  // of the list: its cards have their own
  std::vector<std::unique_ptr<CardTier>> tiers_ ABSL_GUARDED_BY(mutex_);
  CardTierStats dropped_ ABSL_GUARDED_BY(mutex_);  // of cards that failed
  int num_failed_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the request that was done last.
  std::vector<const int64_t*> sums_;
};

}  // namespace deltafin
