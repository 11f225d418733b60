// coordinator/cluster/epoch_file.h
//
// The epochs that a coordinator gives to placements: higher than any that was
// used before, also by a process before this one. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/folder_lock.h"

namespace deltafin {

// What nodes report counts up to this: more would run out of numbers.
inline constexpr uint64_t kMaxReportedEpoch = uint64_t{1} << 62;

class EpochFile {
 public:
  // `folder`: the coordinator's state folder, made where it is missing, and
  // this process's alone from now on. It holds the coordinator's id and a bound
  // of the epochs used. Without the file they begin at the Unix time in
  // seconds, and with `folder` empty there is never one: a later process begins
  // higher as long as there was less than a change a second. What nodes report
  // (RaiseAbove) covers the rest. Errors: UNAVAILABLE naming the process that
  // has the folder; DATA_LOSS for a file that is none, INVALID_ARGUMENT for one
  // of another format, and for a folder of a model or a node; those of the file
  // system.
  static absl::StatusOr<EpochFile> Open(const std::string& folder,
                                        absl::Time now);

  // The next epoch. A bound above it is on disk before it is returned; one
  // write serves many epochs. Where the write fails the epoch is used all the
  // same, with an error in the log once: nodes know it, too.
  uint64_t Next();
  // Epochs to come are greater than `reported`.
  void RaiseAbove(uint64_t reported);

  uint64_t current() const { return current_; }
  const std::string& coordinator_id() const { return coordinator_id_; }

 private:
  EpochFile() = default;
  absl::Status Read(const std::string& contents);
  absl::Status Write(uint64_t bound);

  std::optional<FolderLock> lock_;
  std::string path_;  // empty: no file
  std::string coordinator_id_;
  uint64_t current_ = 0;
  uint64_t bound_ = 0;  // on disk: every epoch used is below
  bool write_failed_ = false;
};

}  // namespace deltafin
