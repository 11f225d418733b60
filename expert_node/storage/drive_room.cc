#include "expert_node/storage/drive_room.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::Status DriveRoom::Check(uint64_t bytes, uint64_t free) const {
  if (bytes > quota_bytes_ || held_bytes_ > quota_bytes_ - bytes) {
    return absl::ResourceExhaustedError(fmt::format(
        "{}: {} more would exceed the quota of {}, of which {} are held; raise "
        "the quota or remove experts",
        folder_, FormatByteSize(bytes), FormatByteSize(quota_bytes_),
        FormatByteSize(held_bytes_)));
  }
  const uint64_t wanted = bytes + unwritten_bytes_ + reserve_bytes_;
  if (free >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{}: {} more do not fit: the file system has {} free, {} of them are "
      "reserved and {} promised; make room or lower the reserve",
      folder_, FormatByteSize(bytes), FormatByteSize(free),
      FormatByteSize(reserve_bytes_), FormatByteSize(unwritten_bytes_)));
}

absl::Status DriveRoom::Take(uint64_t bytes) {
  const uint64_t free = free_bytes();
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(Check(bytes, free));
  held_bytes_ += bytes;
  unwritten_bytes_ += bytes;
  return absl::OkStatus();
}

void DriveRoom::Written(uint64_t bytes) {
  MutexLock lock(mutex_);
  unwritten_bytes_ -= bytes;
}

void DriveRoom::GiveBack(uint64_t bytes) {
  MutexLock lock(mutex_);
  held_bytes_ -= bytes;
}

void DriveRoom::Found(uint64_t bytes) {
  MutexLock lock(mutex_);
  held_bytes_ += bytes;
}

bool DriveRoom::Has(uint64_t bytes) const {
  const uint64_t free = free_bytes();
  MutexLock lock(mutex_);
  return Check(bytes, free).ok();
}

uint64_t DriveRoom::left() const {
  const uint64_t free = free_bytes();
  MutexLock lock(mutex_);
  const uint64_t taken = unwritten_bytes_ + reserve_bytes_;
  return std::min(quota_bytes_ - std::min(quota_bytes_, held_bytes_),
                  free - std::min(free, taken));
}

void DriveRoom::SetQuota(uint64_t quota_bytes) {
  MutexLock lock(mutex_);
  quota_bytes_ = quota_bytes;
}

uint64_t DriveRoom::quota_bytes() const {
  MutexLock lock(mutex_);
  return quota_bytes_;
}

uint64_t DriveRoom::held_bytes() const {
  MutexLock lock(mutex_);
  return held_bytes_;
}

uint64_t DriveRoom::free_bytes() const {
  struct statvfs info;
  if (statvfs(folder_.c_str(), &info) != 0) return 0;
  return uint64_t{info.f_bavail} * info.f_frsize;
}

}  // namespace deltafin
