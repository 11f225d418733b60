// expert_node/storage/memory_governor.h
//
// Makes the expert tier smaller while memory is short, before the machine
// pages, and larger again afterwards. The thread lives as long as the object.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "expert_node/periodic_thread.h"
#include "expert_node/storage/memory_pressure.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

// What is left to everybody else by a tier of so many bytes: an eighth of it,
// 128 MiB at most. Less than the plan of start-up leaves, so that a tier that
// is as full as it was meant to be is left alone.
uint64_t MemoryReserveOf(uint64_t tier_bytes);

class MemoryGovernor {
 public:
  using Reader = std::function<absl::StatusOr<MemoryReading>()>;

  // `tier` must outlive the object; nobody else sets its capacity. `reader` is
  // called every `interval`; where it fails the tier stays as it is.
  MemoryGovernor(
      TieredStore& tier, uint64_t reserve_bytes,
      Reader reader = [] { return ReadMemory(); },
      absl::Duration interval = absl::Milliseconds(500));

 private:
  void Tick();

  TieredStore& tier_;
  const absl::Duration interval_;
  const Reader reader_;
  MemoryPolicy policy_;  // of the thread
  bool was_full_ = true;
  PeriodicThread thread_;
};

}  // namespace deltafin
