// expert_node/device/layer_on_card.h
//
// One card's part of a layer's run: which of its slices are on the card and
// which are not is settled before anything is read; those that are there run at
// once, others in batches as they are brought.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "expert_node/device/card_tier.h"
#include "expert_node/storage/tiered_store.h"
#include "expert_node/work_plan.h"

namespace deltafin {

// Take for each unit, Begin, Bring for units that were missing, Flush, Finish.
// Errors are the card's: after any the request is to be done elsewhere.
// Thread-compatible. One at a time for a tier.
class LayerOnCard {
 public:
  // Both must outlive it. A tier's request begins.
  LayerOnCard(CardTier& tier, const WorkPlan& plan);
  // Waits for what was started.
  ~LayerOnCard();
  LayerOnCard(const LayerOnCard&) = delete;
  LayerOnCard& operator=(const LayerOnCard&) = delete;

  // The card is to do a unit. True: its slice is on the card. In the order of
  // the plan.
  bool Take(int unit);
  bool has_units() const { return has_units_; }

  // Brings the tokens [rows of the plan], each [L], and starts what is there.
  // `lease`, of the missing slices, must live until Finish or the end of this.
  absl::Status Begin(std::span<const float* const> rows, SliceLease& lease);

  // What the lease gave for a unit that was missing.
  struct Missing {
    int unit = 0;
    int index = 0;  // of the lease
    const uint8_t* bytes = nullptr;
    bool is_pinned = false;  // the card reads them by itself
  };
  // Starts to bring the slice, through a buffer unless it is pinned, and a run
  // where a batch is complete. Releases it once it was read. Blocks while as
  // many as the card has stages for are on their way.
  absl::Status Bring(const Missing& missing);
  // Blocks until all that was started is brought and released.
  absl::Status FinishCopies();
  // Starts what was brought.
  absl::Status Flush() { return RunBatch(); }

  // Runs what is left and waits for the sums. An error of the computation is
  // no error of the card.
  absl::StatusOr<KernelStatus> Finish();
  // After Finish: [rows, L].
  const int64_t* sums() const { return tier_.card_->sums(); }
  // A missing slice was computed by the processor.
  void CountComputed();

 private:
  using Entry = ExpertCache::Entry;

  absl::Status FinishCopy(int stage);
  absl::Status Copy(const Missing& missing, int stage);
  absl::StatusOr<Entry*> TakeSlot(const SliceKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tier_.mutex_);
  // Starts the units that wait for it.
  absl::Status RunBatch();
  absl::Status RunRows(std::span<const int> units, int first_row, int num_rows);
  void Unpin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tier_.mutex_);

  CardTier& tier_;
  const WorkPlan& plan_;
  SliceLease* lease_ = nullptr;
  ExpertKey last_expert_{-1, -1};  // that was taken
  bool has_units_ = false;
  bool runs_ = false;           // between Begin and Finish
  std::vector<int> read_by_;    // [stages] index of the lease; -1: none
  std::vector<int> batch_;      // units that are there or on their way
  std::vector<Entry*> pinned_;  // of these and of those that were started
  std::vector<Entry*> entry_;   // [units of the plan]
};

}  // namespace deltafin
