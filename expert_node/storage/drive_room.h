// expert_node/storage/drive_room.h
//
// How many bytes of a folder's file system may be taken: quota and reserve.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/base/mutex.h"

namespace deltafin {

class DriveRoom {
 public:
  DriveRoom(std::string folder, uint64_t quota_bytes, uint64_t reserve_bytes)
      : folder_(std::move(folder)),
        reserve_bytes_(reserve_bytes),
        quota_bytes_(quota_bytes) {}

  // Counts `bytes` as held before they are written. Errors: RESOURCE_EXHAUSTED
  // naming quota or reserve, both numbers and what to do; nothing is taken
  // then.
  absl::Status Take(uint64_t bytes);
  // They are written: from now on the file system counts them itself.
  void Written(uint64_t bytes);
  // Bytes that were taken and written are held no more.
  void GiveBack(uint64_t bytes);
  // Bytes that were held when the folder was opened.
  void Found(uint64_t bytes);
  bool Has(uint64_t bytes) const;
  // The most for which Has says true.
  uint64_t left() const;

  void SetQuota(uint64_t quota_bytes);
  uint64_t quota_bytes() const;
  uint64_t held_bytes() const;
  // Of the file system; 0 when it does not say.
  uint64_t free_bytes() const;

 private:
  absl::Status Check(uint64_t bytes, uint64_t free) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  const uint64_t reserve_bytes_;
  mutable Mutex mutex_;
  uint64_t quota_bytes_ ABSL_GUARDED_BY(mutex_);
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unwritten_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the held ones
};

}  // namespace deltafin
