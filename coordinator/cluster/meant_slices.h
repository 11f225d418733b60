// coordinator/cluster/meant_slices.h
//
// Which (expert, slice) pairs each member is meant to have by the cut of a
// placement. Immutable, so that it can be kept for as long as the cut is the
// same, whatever members hold. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "coordinator/cluster/model_extent.h"
#include "coordinator/cluster/placement.h"

namespace deltafin {

class MeantSlices {
 public:
  // Cuts every expert: milliseconds for a large model.
  MeantSlices(const Placement& placement, const ModelExtent& extent);

  // The placement cuts experts as that of the constructor does.
  bool IsOf(const Placement& placement) const;

  // By slot; empty for those without a share.
  const SliceSet& homes(int slot) const { return *SetOf(slot).homes; }
  // Homes and further copies.
  const SliceSet& all(int slot) const { return *SetOf(slot).all; }

 private:
  struct Sets {
    std::shared_ptr<SliceSet> homes;
    std::shared_ptr<SliceSet> all;
  };
  const Sets& SetOf(int slot) const {
    return static_cast<size_t>(slot) < slots_.size() ? slots_[slot] : nothing_;
  }

  PlacementCut cut_;
  Sets nothing_;
  std::vector<Sets> slots_;
};

}  // namespace deltafin
