// expert_node/storage/read_rate_meter.h
//
// How fast a disk reads, learned from the reads that really happen. Only time
// counts in which the disk was the limit: when several reads were under way at
// once. Thread-safe.
#pragma once

#include <array>
#include <cstdint>

#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace deltafin {

struct ReadRateOptions {
  // Bytes a second that the disk sustained in a measurement of its own
  // (DiskMeasurement). 0: none was made.
  double sustained = 0;
  // Reads under way from which on the disk is the limit. One alone may wait for
  // its latency.
  int busy_reads = 2;
};

struct ReadRateReport {
  // The highest of the last windows, each counting a hundredth less for every
  // busy second since; begins at `sustained`. 0: not known.
  double bytes_per_second = 0;
  double sustained = 0;
  // Over the last minute of busy reading the disk gave less than 0.6 of what it
  // once sustained.
  bool throttled = false;
};

class ReadRateMeter {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(1);  // of busy time
  static constexpr int kMinuteWindows = 60;
  static constexpr double kThrottledBelow = 0.6;
  static constexpr double kKeptPerWindow = 0.99;

  // A read under way.
  struct Reading {
    absl::Duration begin;
    absl::Duration busy_before;
  };

  // `clock` must outlive this.
  ReadRateMeter(const ReadRateOptions& options, const Clock& clock);

  Reading Begin();
  // bytes: 0 where the read failed.
  void End(const Reading& reading, uint64_t bytes);

  ReadRateReport report() const;

 private:
  struct Window {
    double bytes = 0;
    absl::Duration busy;
  };
  // Counts the time since the last change as busy if it was.
  absl::Duration Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ReadRateOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration changed_ ABSL_GUARDED_BY(mutex_);  // under_way_ last did
  absl::Duration busy_ ABSL_GUARDED_BY(mutex_);     // in all
  Window window_ ABSL_GUARDED_BY(mutex_);           // now
  std::array<Window, kMinuteWindows> minute_ ABSL_GUARDED_BY(mutex_);
  int64_t num_windows_ ABSL_GUARDED_BY(mutex_) = 0;
  double rate_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
