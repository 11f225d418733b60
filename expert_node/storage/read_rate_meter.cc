#include "expert_node/storage/read_rate_meter.h"

#include <algorithm>

namespace deltafin {

ReadRateMeter::ReadRateMeter(const ReadRateOptions& options, const Clock& clock)
    : options_(options), clock_(clock), rate_(options.sustained) {}

absl::Duration ReadRateMeter::Advance() {
  const absl::Duration now = clock_.Elapsed();
  if (under_way_ >= options_.busy_reads) {
    busy_ += now - changed_;
    window_.busy += now - changed_;
  }
  changed_ = now;
  return now;
}

ReadRateMeter::Reading ReadRateMeter::Begin() {
  MutexLock lock(mutex_);
  const absl::Duration now = Advance();
  ++under_way_;
  return {now, busy_};
}

void ReadRateMeter::End(const Reading& reading, uint64_t bytes) {
  MutexLock lock(mutex_);
  const absl::Duration now = Advance();
  --under_way_;
  // Its bytes came evenly over its time, of which some was busy.
  const absl::Duration taken = now - reading.begin;
  if (taken > absl::ZeroDuration()) {
    window_.bytes += static_cast<double>(bytes) *
                     absl::FDivDuration(busy_ - reading.busy_before, taken);
  }
  if (window_.busy >= kWindow) CloseWindow();
}

void ReadRateMeter::CloseWindow() {
  const double rate = window_.bytes / absl::ToDoubleSeconds(window_.busy);
  rate_ = std::max(rate, rate_ * kKeptPerWindow);
  minute_[num_windows_ % kMinuteWindows] = window_;
  ++num_windows_;
  window_ = Window();
}

ReadRateReport ReadRateMeter::report() const {
  MutexLock lock(mutex_);
  ReadRateReport report;
  report.bytes_per_second = rate_;
  report.sustained = options_.sustained;
  if (num_windows_ < kMinuteWindows) return report;
  Window minute;
  for (const Window& window : minute_) {
    minute.bytes += window.bytes;
    minute.busy += window.busy;
  }
  report.throttled = minute.bytes / absl::ToDoubleSeconds(minute.busy) <
                     kThrottledBelow * options_.sustained;
  return report;
}

}  // namespace deltafin
