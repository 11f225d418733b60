// expert_node/device/layer_on_cards.h
//
// One try of a layer's run by the cards of a node and by its processor beside
// them: what is on a card runs there at once; what is on none is brought to its
// card or, where that is sooner, computed where it lies (missing_slices.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "expert_node/device/host_pins.h"
#include "expert_node/device/layer_on_card.h"
#include "expert_node/device/missing_slices.h"
#include "expert_node/layer_run.h"
#include "expert_node/merged_work.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

// A layer to compute. All must outlive the run.
struct CardWork {
  const MergedWork& work;
  // Of the work: the processor's part, with its sums.
  LayerRun& run;
  ThreadPool& threads;
};

// Of a node, for all its layers.
struct CardNode {
  TieredStore& store;
  HostPins& pins;
  SliceTimes& times;
  bool processor_computes = true;
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

// Run once. Thread-compatible.
class LayerOnCards {
 public:
  // At least one tier; no other layer is on them. All must outlive it.
  LayerOnCards(std::span<CardTier* const> tiers, const CardNode& node,
               const CardWork& work);
  // Waits for what was started.
  ~LayerOnCards();

  CardOutcome Run();
  // After Run. The first card that failed, index into tiers, and why; -1: none.
  int failed_card() const { return failed_card_; }
  const absl::Status& failure() const { return failure_; }
  // After Run was done: those of each card that had something to do, [rows, L].
  const std::vector<const int64_t*>& sums() const { return sums_; }

 private:
  void Plan();
  void Begin();
  void TakeMissing();
  // Brings what is missing on the cards of a feeder.
  void Feed(int feeder);
  // False: the call failed for one of its cards, and the run has been stopped.
  bool ForCardsOf(int feeder, absl::Status (LayerOnCard::*call)());
  // Computes what is missing.
  void Compute(int worker);
  // The bytes; null: there are none, and the run has been stopped.
  const uint8_t* WaitFor(const MissingSlice& missing);
  size_t SizeOf(int unit) const;
  bool HasStopped();
  KernelStatus Finish();
  void Fail(int card, const absl::Status& why);
  void Stop(const absl::Status& why);
  void End();

  int num_cards() const { return static_cast<int>(layers_.size()); }
  int FeederOf(int card) const { return card % num_feeders_; }

  const CardNode node_;
  const CardWork work_;
  const WorkPlan& plan_;
  const int num_feeders_;
  std::unique_ptr<SliceLease> lease_;                 // outlives what reads it
  std::vector<std::unique_ptr<LayerOnCard>> layers_;  // [tiers]
  std::vector<int> card_of_;                          // [units]
  std::vector<int> missing_units_;                    // [lease]
  MissingSlices missing_;
  std::vector<const int64_t*> sums_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> waited_ns_{0};
  Mutex mutex_;  // of the three below while threads run
  int failed_card_ = -1;
  absl::Status failure_;
  absl::Status status_;
};

}  // namespace deltafin
