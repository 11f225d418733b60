// expert_node/device/layer_on_card.h
//
// One card's part of a layer's run: which of its slices are on the card and
// which are to come is settled before anything is read; those that are there
// run at once, the others in batches as they arrive.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "expert_node/device/card_tier.h"
#include "expert_node/work_plan.h"

namespace deltafin {

// Take for each unit, Begin, Add for each unit that was missing, Finish. Errors
// are the card's: after any the request is to be done elsewhere.
// Thread-compatible, but for Add. One at a time for a tier.
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
  absl::Status Begin(std::span<const float* const> rows);

  // Brings the slice of a unit that was missing: copies `bytes` to a buffer,
  // calls `is_read`, starts the copy to the card, and a run where a batch is
  // complete. Waits for room. Thread-safe.
  absl::Status Add(int unit, const uint8_t* bytes,
                   absl::FunctionRef<void()> is_read);

  // Runs what is left and waits for the sums. An error of the computation is
  // no error of the card.
  absl::StatusOr<KernelStatus> Finish();
  // After Finish: [rows, L].
  const int64_t* sums() const { return tier_.card_->sums(); }

 private:
  using Entry = ExpertCache::Entry;

  absl::StatusOr<Entry*> TakeSlot(const SliceKey& key)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(tier_.mutex_);
  // Starts the units that wait for it.
  absl::Status RunBatch();
  absl::Status RunRows(std::span<const int> units, int first_row, int num_rows);
  void Unpin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(tier_.mutex_);

  CardTier& tier_;
  const WorkPlan& plan_;
  ExpertKey last_expert_{-1, -1};  // that was taken
  bool has_units_ = false;
  bool runs_ = false;           // between Begin and Finish
  std::vector<int> batch_;      // units that are there or on their way
  std::vector<Entry*> pinned_;  // of these and of those that were started
  std::vector<Entry*> entry_;   // [units of the plan]
};

}  // namespace deltafin
