// expert_node/device/missing_slices.h
//
// Who takes the slices of a layer that are on no card: the feeders, which bring
// them to cards, or the processor, where that is sooner. Whoever is free takes
// the next one; towards the end the processor leaves to a feeder what that one
// would have brought before the processor could have computed it.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace deltafin {

// How long slices take, from those that were taken lately. Zero: not known.
// Thread-safe.
class SliceTimes {
 public:
  static constexpr int kMostFeeders = 64;

  // A feeder brings one slice after the other.
  void AddBrought(int feeder, absl::Duration time);
  // A thread of the processor computes one for so many tokens.
  void AddComputed(size_t num_tokens, absl::Duration time);
  absl::Duration brought(int feeder) const;
  absl::Duration computed(size_t num_tokens) const;

 private:
  static constexpr int kSizes = 16;  // powers of two

  mutable Mutex mutex_;
  std::array<absl::Duration, kMostFeeders> brought_ ABSL_GUARDED_BY(mutex_);
  std::array<absl::Duration, kSizes> computed_ ABSL_GUARDED_BY(mutex_);
};

struct MissingSlice {
  int index = 0;  // of the lease
  int unit = 0;   // of the plan
  size_t num_tokens = 0;
};

// Each feeder's slices are taken in the order in which they were added, by
// whomever. Thread-safe.
class MissingSlices {
 public:
  // All must outlive it.
  MissingSlices(int num_feeders, const SliceTimes& times, const Clock& clock);

  void Add(int feeder, const MissingSlice& slice);

  // TakeForProcessor would give one.
  bool HasForProcessor() const;

  std::optional<MissingSlice> TakeForFeeder(int feeder);
  // Of the feeder that would need longest. None: there is none, or feeders will
  // be sooner. What is not known is tried.
  std::optional<MissingSlice> TakeForProcessor();

 private:
  struct Feeder {
    std::deque<MissingSlice> slices;
    // When it will have brought what it took.
    absl::Duration free_at;
  };

  absl::Duration EndOf(int feeder, absl::Duration now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whose next slice the processor is to take; -1: nobody's.
  int FeederToHelp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SliceTimes& times_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<Feeder> feeders_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
