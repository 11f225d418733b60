// expert_node/storage/expert_store.h
//
// A place that supplies slices of routed experts: released shards on disk, or
// a fake in tests. The tiers of a node stack on this interface.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/expert_key.h"
#include "kernels/expert_weights.h"

namespace deltafin {

// Name of one slice of a routed expert: the unit that is kept in memory. Runs
// of any length, cut anywhere, share their slices.
struct SliceKey {
  ExpertKey expert;
  int32_t slice = 0;
  friend auto operator<=>(const SliceKey&, const SliceKey&) = default;

  template <typename H>
  friend H AbslHashValue(H h, const SliceKey& key) {
    return H::combine(std::move(h), key.expert, key.slice);
  }
};

class ExpertStore {
 public:
  virtual ~ExpertStore() = default;

  virtual const ExpertShape& shape() const = 0;

  // Read takes it from this machine: worth reading on a guess. Thread-safe.
  virtual bool IsNear(ExpertKey /*key*/, SliceRun /*run*/) const {
    return true;
  }

  // The part of it that is on this machine: its Read answers NOT_FOUND for a
  // run that is not wholly there, and never asks the network. Lives as long as
  // this does.
  virtual ExpertStore& held() { return *this; }

  // Bit s: slice s of an expert is on this machine. Steps of held_version()
  // tell when any of them changes; 0: all are, for good. Thread-safe.
  virtual uint64_t HeldMask(ExpertKey /*key*/) const {
    return (uint64_t{2} << (shape().num_slices() - 1)) - 1;
  }
  virtual uint64_t held_version() const { return 0; }
  // Slices of an expert that one read may take alone without costing more than
  // with the others: what is not urgent is read in such pieces.
  virtual int slices_per_read() const { return shape().num_slices(); }

  // Reads `run` of an expert. out[i] receives slice run.first + i in tile
  // order, shape().slice_offset(s + 1) - slice_offset(s) bytes; `ready(s)` is
  // called as soon as its bytes are complete and checked, on this thread.
  // Returns the bytes taken from the medium. Thread-safe; blocks on it.
  // Errors: DATA_LOSS (short read, a NaN scale), NOT_FOUND, RESOURCE_EXHAUSTED,
  // each naming layer, expert and file. Slices already ready stay good.
  virtual absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) = 0;
};

}  // namespace deltafin
