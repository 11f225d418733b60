// expert_node/storage/memory_pressure.h
//
// Whether memory is short, and how much of it the expert tier should use then:
// a reading of the kernel's counters and a decision over it. Thread-compatible.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/memory_budget.h"

namespace deltafin {

// Totals since some fixed point, apart from the first.
struct MemoryReading {
  int64_t headroom_bytes = 0;  // MemoryHeadroom
  absl::Duration stalled;      // tasks waited for memory; 0 where nobody counts
  uint64_t major_faults = 0;   // of this process
};

// Of the cgroup (version 2) where it counts stalls, else of the machine.
// Errors: UNAVAILABLE when the kernel does not say.
absl::StatusOr<MemoryReading> ReadMemory(const MemorySources& sources = {});

struct MemoryPolicyOptions {
  // What the tier has when nothing is short.
  uint64_t full_bytes = 0;
  // It never shrinks below this.
  uint64_t least_bytes = 0;
  // What is to stay available to everybody else: below it memory is short.
  uint64_t reserve_bytes = 0;
};

// Asked again and again at equal intervals.
class MemoryPolicy {
 public:
  // Calm readings before the tier grows.
  static constexpr int kCalmReadings = 4;
  // Steps from nothing to everything.
  static constexpr uint64_t kSteps = 16;
  // Faults and stalls count while headroom is below so many reserves: a process
  // faults and waits for other reasons, too.
  static constexpr int64_t kNearReserves = 3;
  static constexpr uint64_t kManyFaults = 32;  // in an interval
  // Share of an interval.
  static constexpr double kMuchStalling = 0.1;

  explicit MemoryPolicy(const MemoryPolicyOptions& options);

  // What the tier should have from now on. `used`: what slices take of it now;
  // `interval`: since the last reading.
  uint64_t Next(const MemoryReading& reading, uint64_t used_bytes,
                absl::Duration interval);
  uint64_t capacity_bytes() const { return capacity_; }

 private:
  bool IsStrained(const MemoryReading& reading, absl::Duration interval) const;
  void Shrink(int64_t by, uint64_t used_bytes);
  void Grow(int64_t headroom, uint64_t used_bytes);

  const MemoryPolicyOptions options_;
  const uint64_t step_;
  uint64_t capacity_;
  bool has_last_ = false;
  MemoryReading last_;
  int calm_ = 0;
};

}  // namespace deltafin
