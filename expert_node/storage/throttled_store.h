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

// The disk: what is read from it and written to it takes its time, one after
// the other as a disk's queue does.
class ThrottledDrive {
 public:
  // REQUIRES: > 0.
  explicit ThrottledDrive(double bytes_per_second);

  // Blocks until the disk has moved `bytes` more. Large ones go in pieces, and
  // others have their turn between these.
  void Move(uint64_t bytes);

  // Since the start.
  uint64_t bytes_moved() const;

 private:
  // When the disk has moved `bytes` more.
  absl::Time Moved(uint64_t bytes);

  const double bytes_per_second_;
  mutable Mutex mutex_;
  absl::Time busy_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t bytes_moved_ ABSL_GUARDED_BY(mutex_) = 0;
};

class ThrottledStore : public ExpertStore {
 public:
  // All reads together take at most `bytes_per_second` of slices from `lower`.
  ThrottledStore(std::unique_ptr<ExpertStore> lower, double bytes_per_second);
  // The same, together with whatever else moves on `drive`. All of `lower` is
  // on it: what others are given (held()) comes from there, too.
  ThrottledStore(std::unique_ptr<ExpertStore> lower,
                 std::shared_ptr<ThrottledDrive> drive);

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
  const std::unique_ptr<ExpertStore> lower_;
  const std::shared_ptr<ThrottledDrive> drive_;
};

}  // namespace deltafin
