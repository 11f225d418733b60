// expert_node/storage/throttled_store.h
//
// A store that is no faster than a given disk: for tests and benchmarks of
// clusters on one machine. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

class ThrottledStore : public ExpertStore {
 public:
  // All reads together take at most `bytes_per_second` of slices from `lower`,
  // one read after the other as a disk's queue does. REQUIRES: > 0.
  ThrottledStore(std::unique_ptr<ExpertStore> lower, double bytes_per_second);

  const ExpertShape& shape() const override { return lower_->shape(); }

  bool IsNear(ExpertKey key, SliceRun run) const override {
    return lower_->IsNear(key, run);
  }

  uint64_t HeldMask(ExpertKey key) const override {
    return lower_->HeldMask(key);
  }
  uint64_t held_version() const override { return lower_->held_version(); }
  int slices_per_read() const override { return lower_->slices_per_read(); }

  // Slices become ready at the pace of the disk.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

 private:
  // When the disk has delivered `bytes` more.
  absl::Time Delivered(uint64_t bytes);

  const std::unique_ptr<ExpertStore> lower_;
  const double bytes_per_second_;
  Mutex mutex_;
  absl::Time busy_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace deltafin
